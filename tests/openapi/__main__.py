"""Writes the OpenAPI document into the repository."""

from __future__ import annotations

from tests.openapi.document import FILE, text

FILE.write_text(text(), encoding="utf-8")
print(f"paddock: wrote {FILE}")
