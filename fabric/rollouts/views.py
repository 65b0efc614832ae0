"""Pages of rollouts: list, one rollout with its targets as they move, starting one, and the verbs."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from fabric.audit.selectors import audit_entries_for_object
from fabric.core.actor import Role
from fabric.core.errors import FabricError, NotAllowed, NotFound
from fabric.core.web.errors import flash
from fabric.core.web.pages import HISTORY_ROWS, ActPage, Crumb, Empty, Fragment, ListPage, Page, fingerprint
from fabric.policies.selectors import revision_diff
from fabric.rollouts.domain import OPEN_ROLLOUT, RolloutState, TargetState, Verb
from fabric.rollouts.filters import RolloutFilter
from fabric.rollouts.forms import StartForm, VerbForm
from fabric.rollouts.models import Rollout
from fabric.rollouts.selectors import RolloutDetail, rollout_detail, rollouts_for_overview
from fabric.rollouts.services import act_on_rollout, start_rollout
from fabric.rollouts.tables import RolloutTable

VERB_LABELS = {
    Verb.PAUSE: "Pause",
    Verb.RESUME: "Resume",
    Verb.ABORT: "Abort",
    Verb.ROLL_BACK: "Roll back",
}
VERB_ICONS = {Verb.PAUSE: "pause", Verb.RESUME: "play", Verb.ABORT: "stop", Verb.ROLL_BACK: "back"}
CONSEQUENCES = {
    Verb.PAUSE: "Agents that have not acknowledged yet keep what they run. It can be resumed.",
    Verb.RESUME: "The waiting agents are given the revision again.",
    Verb.ABORT: "Agents in sync keep the new revision; the others keep what they run. It cannot be resumed, "
    "but it can be rolled back.",
    Verb.ROLL_BACK: "A new rollout takes the pool back to the revision that ran before.",
}


class RolloutList(ListPage):
    """Every rollout."""

    title = "Rollouts"
    noun = "rollouts"
    intro = "A rollout carries one revision to every agent of a pool and ends when all are seen to run it."
    table_class = RolloutTable
    filterset_class = RolloutFilter

    def rows(self) -> QuerySet[Rollout]:
        """Return all."""
        return rollouts_for_overview(self.actor)

    def empty(self) -> Empty:
        """Say where one is started."""
        return Empty(
            "No rollout was started yet",
            "Edit a policy, save it as a new revision, and press Start rollout beside the pool that shall run it.",
            "rollout",
            "To the policies",
            reverse("policies:list"),
        )


class RolloutPage(Page):
    """One rollout. The part that moves is also served alone, for the page's own polling."""

    template_name = "rollouts/detail.html"

    def crumbs(self) -> Sequence[Crumb]:
        """Return the list."""
        return [Crumb("Rollouts", reverse("rollouts:list"))]

    def context(self) -> dict[str, Any]:
        """Read everything."""
        detail = rollout_detail(self.actor, self.kwargs["pk"])
        rollout = detail.rollout
        before = rollout.previous_revision
        return {
            "title": str(rollout),
            "changes": revision_diff(before, rollout.revision) if before else [],
            "history": audit_entries_for_object(self.actor, "rollouts.rollout", rollout.pk)[:HISTORY_ROWS],
            **progress_context(detail),
        }


class RolloutProgress(Fragment):
    """What moves: state, progress, reasons, targets, buttons."""

    template_name = "rollouts/_progress.html"

    def context(self) -> dict[str, Any]:
        """Read what moves."""
        return progress_context(rollout_detail(self.actor, self.kwargs["pk"]))


def progress_context(detail: RolloutDetail) -> dict[str, Any]:
    """Return what the moving part shows. `fingerprint` changes whenever what it shows does."""
    rollout = detail.rollout
    counts = Counter(target.state for target in detail.targets)
    reasons = {reason.target: reason for reason in detail.reasons if reason.target}
    rows = [{"target": target, "reason": reasons.get(str(target.pk))} for target in detail.targets]
    facts: list[Any] = [rollout.version, rollout.state, detail.verbs]
    facts += [(t.state, t.attempts, t.generation, t.agent.observed_generation) for t in detail.targets]
    facts += [(r.target, r.code, r.reason) for r in detail.reasons]
    return {
        "rollout": rollout,
        "rows": rows,
        "own_reasons": [reason for reason in detail.reasons if not reason.target],
        "blocked": [reason for reason in detail.reasons if reason.target],
        "verbs": [
            {
                "name": verb.value,
                "label": VERB_LABELS[verb],
                "icon": VERB_ICONS[verb],
                "url": reverse("rollouts:act", args=[rollout.pk, verb.value]),
                "confirm": verb in (Verb.ABORT, Verb.ROLL_BACK),
            }
            for verb in detail.verbs
        ],
        "total": len(detail.targets),
        "in_sync": counts[TargetState.IN_SYNC.value],
        "is_open": RolloutState(rollout.state) in OPEN_ROLLOUT,
        "fingerprint": fingerprint(facts),
    }


class StartRollout(Page):
    """Starts a rollout; a refusal is shown on the revision's page."""

    http_method_names = ["post"]
    role = Role.OPERATOR

    def post(self, request: HttpRequest) -> HttpResponse:
        """Start it and go to its page."""
        form = StartForm(request.POST)
        if not form.is_valid():
            raise Http404("There is no such pool or revision.")
        data = form.cleaned_data
        try:
            rollout = start_rollout(
                actor=self.actor, pool_id=data["pool"], revision_id=data["revision"], reason=data["reason"]
            )
        except (NotFound, NotAllowed):
            raise
        except FabricError as error:
            flash(request, error)
            return HttpResponseRedirect(request.POST.get("back", "") if _is_ours(request) else reverse("policies:list"))
        return HttpResponseRedirect(rollout.get_absolute_url())


def _is_ours(request: HttpRequest) -> bool:
    back = request.POST.get("back", "")
    return back.startswith(reverse("policies:list"))


class ActOnRollout(ActPage):
    """One verb on one rollout, with the reason."""

    form_class = VerbForm

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Refuse a word that is no verb."""
        if kwargs["verb"] not in set(Verb):
            raise Http404("There is no such verb.")
        return super().dispatch(request, *args, **kwargs)

    @property
    def verb(self) -> Verb:
        """The verb of the address."""
        return Verb(self.kwargs["verb"])

    def context(self) -> dict[str, Any]:
        """Name the page after its verb."""
        return {"title": VERB_LABELS[self.verb]}

    def crumbs(self) -> Sequence[Crumb]:
        """Return the list and the rollout."""
        rollout = rollout_detail(self.actor, self.kwargs["pk"]).rollout
        return [Crumb("Rollouts", reverse("rollouts:list")), Crumb(str(rollout), rollout.get_absolute_url())]

    def question(self) -> str:
        """Ask."""
        rollout = rollout_detail(self.actor, self.kwargs["pk"]).rollout
        return f"{VERB_LABELS[self.verb]} the rollout of {rollout.revision} to {rollout.pool}?"

    def consequence(self) -> str:
        """Say what follows."""
        return CONSEQUENCES[self.verb]

    def button(self) -> tuple[str, bool]:
        """Return the verb; abort and roll back are marked as dangerous."""
        return VERB_LABELS[self.verb], self.verb in (Verb.ABORT, Verb.ROLL_BACK)

    def back_url(self) -> str:
        """Return the rollout."""
        return reverse("rollouts:detail", args=[self.kwargs["pk"]])

    def act(self, data: dict[str, Any]) -> str:
        """Do it; a roll back leads to the new rollout."""
        rollout = act_on_rollout(
            actor=self.actor,
            rollout_id=self.kwargs["pk"],
            verb=self.verb,
            reason=data["reason"],
        )
        return rollout.get_absolute_url()
