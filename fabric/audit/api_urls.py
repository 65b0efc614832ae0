"""Routes of the audit API, below /api/v1/."""

from rest_framework.routers import SimpleRouter

from fabric.audit.api import AuditEntryViewSet

router = SimpleRouter(use_regex_path=False)
router.register("audit", AuditEntryViewSet, basename="audit-entry")

urlpatterns = router.urls
