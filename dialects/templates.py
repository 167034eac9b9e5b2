"""The templates of an engine: the statements that its package brings along, and those of the engines that it derives from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import sql_templates


class Templates:
    """The part of a dialect that finds its templates."""

    name: ClassVar[str]

    TEMPLATES: ClassVar[str] = "sql_templates"
    """The package whose ``.sql`` files hold this class's templates, as ``import`` writes it. A template that is in none of them is taken
    from the package of the class that it derives from, and in the end from the common one."""

    UNAVAILABLE_TEMPLATES: ClassVar[frozenset[str]] = frozenset()
    """Templates of the classes that it derives from that do not work on this engine; ``template`` raises LookupError for them."""

    @classmethod
    def template_packages(cls) -> tuple[str, ...]:
        """Return the packages in which templates are looked up, the engine's own first."""
        return tuple(vars(base)["TEMPLATES"] for base in cls.__mro__ if "TEMPLATES" in vars(base))

    def template(self, name: str) -> str:
        """Return the text of a template for this engine. Raises LookupError if it has none."""
        if name in self.UNAVAILABLE_TEMPLATES:
            raise LookupError(f"template {name} is not available on {self.name}")
        return sql_templates.load(name, self.template_packages())

    def catalogue_query(self, name: str, fragments: Mapping[str, str]) -> str:
        """Return the statement of a template, whose holes are filled with those of the fragments that it has holes for.

        Raises LookupError if the engine has no such template.
        """
        template = self.template(name)
        return sql_templates.fill(template, {hole: fragments[hole] for hole in sql_templates.holes(template)})
