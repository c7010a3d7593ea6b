"""Model families as data: sizes, facts and conversion rules. No modules are defined here."""

from zoo.families.ast import AST
from zoo.families.beit import BEIT, BEITV2
from zoo.families.bert import BERT
from zoo.families.clip import CLIP, CLIP_QUICK
from zoo.families.deit import DEIT, DEIT3, DEIT_DISTILLED
from zoo.families.dinov2 import DINOV2, DINOV2_GIANT
from zoo.families.dinov3 import DINOV3
from zoo.families.eva import EVA
from zoo.families.eva02 import EVA02, EVA02_LARGER
from zoo.families.family import Family
from zoo.families.gpt import GPT
from zoo.families.llama import LLAMA
from zoo.families.mae import MAE
from zoo.families.naflex import NAFLEX
from zoo.families.siglip import SIGLIP, SIGLIP_GAP
from zoo.families.swin import SWIN
from zoo.families.swin3d import SWIN3D
from zoo.families.swinv2 import SWINV2
from zoo.families.vit import VIT
from zoo.families.vit_gap import VIT_GAP

VITS = (
    VIT,
    VIT_GAP,
    NAFLEX,
    DEIT,
    DEIT_DISTILLED,
    DEIT3,
    MAE,
    DINOV2,
    DINOV2_GIANT,
    SIGLIP,
    SIGLIP_GAP,
    CLIP,
    CLIP_QUICK,
    EVA,
    EVA02,
    EVA02_LARGER,
    *DINOV3,
    BEIT,
    BEITV2,
)
FAMILIES: tuple[Family, ...] = (*VITS, SWIN, SWINV2, SWIN3D, BERT, GPT, LLAMA, AST)
