"""Editing a policy: the form made of the schema, the text, what a revision would change, starting its rollout."""

import json

import pytest
from django.test import Client

from fabric.policies.models import Policy, Revision
from fabric.policies.services import create_policy, write_revision
from fabric.pools.services import create_pool
from fabric.rollouts.models import Rollout
from kvcache.policy import default_policy, json_schema, parse_policy
from tests.ui.html import Document
from tests.ui.test_inventory_forms import _errors, _form
from tests.ui.world import OPERATOR, World


@pytest.fixture
def policy(db: None) -> Policy:
    """A policy without revisions."""
    return create_policy(actor=OPERATOR, name="long-context")


def _edit(policy: Policy) -> str:
    return f"/policies/{policy.pk}/edit/"


def test_new_policy_leads_to_its_document(operator: Client) -> None:
    response = operator.post("/policies/new/", {"name": "p", "description": "d"})
    assert response["Location"] == _edit(Policy.objects.get())
    taken = operator.post("/policies/new/", {"name": "p"})
    assert taken.status_code == 422
    assert any("name" in error for error in _errors(taken))


def test_form_shows_every_field_of_the_schema_with_help_and_range(operator: Client, policy: Policy) -> None:
    text = operator.get(_edit(policy)).content.decode()
    names = {e.attrs.get("name", "") for e in Document(text).all("input", "select")}
    for tier, model in (("dram", "DramPolicy"), ("flash", "FlashPolicy")):
        for name, node in json_schema()["$defs"][model]["properties"].items():
            assert any(field.startswith(f"{tier}-{name}") for field in names), f"{tier}.{name}"
            if name != "capacity":
                assert node["description"].split(":")[0][:40] in text, name
    assert "Range: above 0 to 100." in text
    assert "Range: 1 to 1000." in text


def test_defaults_saved_as_shown_are_the_default_policy(operator: Client, policy: Policy) -> None:
    response = operator.post(_edit(policy), _form(operator, _edit(policy)))
    revision = Revision.objects.get()
    assert response["Location"] == revision.get_absolute_url()
    assert revision.digest == default_policy().digest()


ODD = {
    "version": "fabric/v1",
    "tiers": {
        "dram": {"capacity": {"share": 0.3333333333333333}, "high_watermark": 0.123456789, "low_watermark": 1e-05},
        "flash": {
            "capacity": {"bytes": 123456789},
            "eviction": "fifo",
            "ttl_s": 0.25,
            "promote_after_hits": 7,
            "keep_on_promote": False,
        },
    },
}


def test_form_round_trips_any_document_exactly(operator: Client, policy: Policy) -> None:
    write_revision(actor=OPERATOR, policy_id=policy.pk, document=ODD)
    response = operator.post(_edit(policy), _form(operator, _edit(policy)))
    assert response.status_code == 422, "the same document is no new revision"
    assert "Nothing changed" in response.content.decode()
    data = _form(operator, _edit(policy)) | {"dram-capacity_mode": "bytes", "dram-capacity_bytes": "64 MiB"}
    assert operator.post(_edit(policy), data).status_code == 302
    expected = json.loads(json.dumps(ODD))
    expected["tiers"]["dram"]["capacity"] = {"bytes": 64 << 20}
    assert Revision.objects.get(number=2).digest == parse_policy(expected).digest()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dram-capacity_percent": "150"}, "less than or equal to 100"),
        ({"dram-capacity_percent": "-1"}, "greater than or equal to 0"),
        ({"dram-capacity_percent": ""}, "Give a value here, or choose the other way."),
        ({"dram-capacity_percent": "NaN"}, "Enter a number"),
        ({"flash-capacity_mode": "bytes", "flash-capacity_bytes": "10 GB"}, "This is not a size"),
        ({"flash-capacity_mode": "bytes", "flash-capacity_bytes": ""}, "Give a value here"),
        ({"dram-high_watermark_percent": "50", "dram-low_watermark_percent": "60"}, "above the high watermark"),
        ({"dram-high_watermark_percent": "0"}, "The number is not above 0"),
        ({"dram-ttl_s": "0"}, "The number is not above 0"),
        ({"flash-promote_after_hits": "0"}, "greater than or equal to 1"),
        ({"dram-eviction": "random"}, "is not one of the available choices"),
    ],
)
def test_each_bad_value_is_named_beside_its_field(
    operator: Client, policy: Policy, change: dict[str, str], message: str
) -> None:
    response = operator.post(_edit(policy), _form(operator, _edit(policy)) | change)
    assert response.status_code == 422
    assert any(message in error for error in _errors(response)), _errors(response)
    assert not Revision.objects.exists()


def test_text_is_checked_line_by_line_and_kept_as_typed(operator: Client, policy: Policy) -> None:
    path = f"{_edit(policy)}text/"
    assert "version: fabric/v1" in operator.get(path).content.decode()
    bad = operator.post(path, {"text": "version: fabric/v1\ntiers:\n  dram: {capacity: {share: 2}, evict: lru}"})
    errors = " ".join(_errors(bad)) + bad.content.decode()
    assert bad.status_code == 422
    assert "tiers.dram.capacity.share" in errors
    assert "did you mean eviction?" in errors
    assert "{share: 2}" in bad.content.decode()
    broken = operator.post(path, {"text": "version: [fabric"})
    assert "Line 1, column 17" in broken.content.decode()
    good = operator.post(path, {"text": json.dumps(ODD), "note": "as JSON"})
    assert good.status_code == 302
    assert Revision.objects.get().note == "as JSON"


def test_two_editors_of_one_policy_do_not_overwrite_each_other(operator: Client, policy: Policy) -> None:
    mine = _form(operator, _edit(policy))
    write_revision(actor=OPERATOR, policy_id=policy.pk, document=ODD)
    response = operator.post(_edit(policy), mine)
    assert response.status_code == 422
    assert Revision.objects.count() == 1


def test_revision_says_what_it_changes_against_what_the_pool_runs(operator: Client, world: World) -> None:
    document = default_policy().as_dict()
    document["tiers"]["flash"]["capacity"] = {"share": 0.9}
    third = write_revision(actor=OPERATOR, policy_id=world.policy.pk, document=document)
    page = Document(operator.get(third.get_absolute_url()).content.decode())
    rows = [
        [cell.text.strip() for cell in page.all("td") if cell.parent is row]
        for row in page.all("tr")
        if row.inside("tbody")
    ]
    assert ["tiers.flash.capacity.share", "0.5", "0.9"] in rows, "against r1, which the pool runs"
    assert ["tiers.dram.capacity.share", "0.5", "0.25"] in rows, "against r2, the revision before"


def test_start_rollout_goes_to_the_rollouts_page(operator: Client, world: World) -> None:
    data = {"pool": str(world.pool.pk), "revision": str(world.revision.pk), "reason": "back"}
    response = operator.post("/rollouts/start/", data)
    rollout = Rollout.objects.get(reason="back")
    assert response["Location"] == rollout.get_absolute_url()
    again = operator.post("/rollouts/start/", data | {"back": world.revision.get_absolute_url()}, follow=True)
    assert again.redirect_chain == [(world.revision.get_absolute_url(), 302)]
    assert "is on its way to pool warm already" in again.content.decode()


def test_start_rollout_refuses_strange_input_and_foreign_ways_back(operator: Client, world: World) -> None:
    assert operator.post("/rollouts/start/", {"pool": "x", "revision": "y"}).status_code == 404
    absent = "00000000-0000-0000-0000-000000000000"
    assert operator.post("/rollouts/start/", {"pool": absent, "revision": str(world.revision.pk)}).status_code == 404
    empty = create_pool(actor=OPERATOR, name="empty")
    data = {"pool": str(empty.pk), "revision": str(world.revision.pk), "back": "https://evil.example/"}
    assert operator.post("/rollouts/start/", data)["Location"] == "/policies/"


def test_revision_that_an_agent_cannot_enforce_has_no_way_to_start(operator: Client, world: World) -> None:
    document = default_policy().as_dict()
    document["tiers"]["dram"]["capacity"] = {"bytes": 1 << 40}
    revision = write_revision(actor=OPERATOR, policy_id=world.policy.pk, document=document)
    page = Document(operator.get(revision.get_absolute_url()).content.decode())
    start = [button for button in page.all("button") if button.text.strip() == "Start rollout"]
    assert ["disabled" in button.attrs for button in start] == [True]
    assert "agent kv-01 (engine flash)" in page.source
