"""OpenAPI: what every operation of ours has, so that no view needs to say it."""

from typing import Any, Literal

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse

from fabric.core.api.problems import CONTENT_TYPE
from fabric.core.api.serializers import ProblemSerializer


class FabricAutoSchema(AutoSchema):
    """Adds problem bodies to every operation, and ETag and If-Match to those on versioned objects."""

    def get_override_parameters(self) -> list[Any]:
        """Declare `If-Match` where the view asks for it, and the ETag header that answers carry."""
        view: Any = self.view
        if not getattr(view, "versioned", False):
            return []
        parameters = []
        if view.action in {"partial_update", "destroy"} | view.versioned_actions:
            parameters.append(
                OpenApiParameter(
                    "If-Match",
                    OpenApiTypes.STR,
                    OpenApiParameter.HEADER,
                    required=True,
                    description='The ETag that was read, such as "3".',
                )
            )
        if view.action in {"retrieve", "create", "partial_update"} | view.versioned_actions:
            parameters.append(
                OpenApiParameter(
                    "ETag",
                    OpenApiTypes.STR,
                    OpenApiParameter.HEADER,
                    response=[200, 201],
                    description="Version of the object; send it back as If-Match.",
                )
            )
        return parameters

    def _get_response_bodies(self, direction: Literal["request", "response"] = "response") -> Any:
        bodies: Any = super()._get_response_bodies(direction)
        problem = OpenApiResponse(ProblemSerializer, description="What was wrong, and what would be right.")
        of_code: Any = self._get_response_for_code
        bodies["4XX"] = of_code(problem, "4XX", media_types=[CONTENT_TYPE], direction=direction)
        return bodies
