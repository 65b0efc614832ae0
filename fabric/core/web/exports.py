"""A table as a CSV file."""

import csv
import io
from html import unescape

from django.http import HttpResponse
from django.utils import timezone
from django.utils.html import strip_tags
from django.utils.safestring import SafeString

from fabric.core.web.tables import Table

MAX_ROWS = 50_000
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def csv_response(table: Table, noun: str) -> HttpResponse:
    """Return the table's rows (at most `MAX_ROWS`) as a CSV attachment."""
    file = io.StringIO()
    writer = csv.writer(file)
    for count, row in enumerate(table.as_values()):
        if count > MAX_ROWS:
            break
        writer.writerow([inert(cell) for cell in row])
    stamp = timezone.now().strftime("%Y%m%dT%H%M%SZ")
    return HttpResponse(
        file.getvalue(),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{noun.replace(" ", "-")}-{stamp}.csv"'},
    )


def inert(cell: object) -> str:
    """Return a cell's text so that no spreadsheet takes it for a formula; numbers stay numbers."""
    if cell is None:
        return ""
    text = unescape(strip_tags(cell)) if isinstance(cell, SafeString) else str(cell)
    if isinstance(cell, str) and text.startswith(_FORMULA_STARTS) and not _is_number(text):
        return f"'{text}"
    return text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
