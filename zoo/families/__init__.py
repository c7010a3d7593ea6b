"""Model families as data: sizes, facts and conversion rules. No modules are defined here."""

from zoo.families.family import Family
from zoo.families.vit import VIT

FAMILIES: tuple[Family, ...] = (VIT,)

__all__ = ["FAMILIES", "Family"]
