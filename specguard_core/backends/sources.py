"""Where a model comes from and what can be said of it before its weights are read.

source      what a person named: a folder, a GGUF file, or a hub id: owner/name, or
            owner/name/file for a GGUF file; after an @ the revision, where it is not the main one
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from transformers import AutoConfig, AutoTokenizer, GenerationConfig
from transformers.cache_utils import DynamicCache, LinearAttentionCacheLayerMixin
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING
from transformers.utils.hub import resolve_revision

from specguard_core.backends.tokenizer import first_difference
from specguard_core.backends.trouble import told_in_one_sentence
from specguard_core.errors import CacheError, ModelError, PairError

_UNBOUNDED_CONTEXT = 4096
SMALL_MODEL_PARAMETERS = 50_000_000


@dataclass(frozen=True, slots=True)
class Source:
    """A model found, nothing of it read. `options` go to every from_pretrained."""

    name: str
    location: str
    options: dict[str, Any]

    @property
    def gguf(self) -> bool:
        return "gguf_file" in self.options

    @property
    def named(self) -> str:
        """The absolute path of a folder or file, or the hub id."""
        path = Path(self.location, self.options.get("gguf_file", ""))
        return str(path.absolute() if self.local else path.as_posix())

    @property
    def local(self) -> bool:
        return "local_files_only" in self.options

    @property
    def revision(self) -> str | None:
        """The commit, where the source was pinned to one; else what was asked for."""
        revision: str | None = self.options.get("revision")
        return revision

    @property
    def file_bytes(self) -> int | None:
        """The size of a GGUF file; None where there is none on this machine."""
        return Path(self.named).stat().st_size if self.gguf and self.local else None


def find(source: str | Path) -> Source:
    """A folder, a GGUF file or a hub id, by what is on the disk.

    Raises:
        ModelError: a path that is no model.
    """
    path = Path(source).expanduser()
    name = path.name or str(path.resolve().name)
    if path.is_file():
        if path.suffix.lower() != ".gguf":
            raise ModelError(f"expected a model folder or a .gguf file, got {source}: name one")
        return Source(name, str(path.parent), {"gguf_file": path.name, "local_files_only": True})
    if path.is_dir():
        if (path / "config.json").is_file():
            return Source(name, str(path), {"local_files_only": True})
        files = sorted(path.glob("*.gguf"))
        if len(files) == 1:
            options = {"gguf_file": files[0].name, "local_files_only": True}
            return Source(name, str(path), options)
        raise ModelError(
            f"expected a model folder with config.json or one .gguf file, {source} has neither: "
            "name the folder that holds the model"
        )
    text, _, revision = str(source).partition("@")
    owner_and_name, inside = "/".join(text.split("/")[:2]), "/".join(text.split("/")[2:])
    no_id = text.startswith((".", "~", "/")) or not text.strip("/")
    if no_id or (inside and not inside.endswith(".gguf")):
        raise ModelError(f"expected a model folder, {source} does not exist: check the path")
    options = {"revision": revision} if revision else {}
    if inside:
        options["gguf_file"] = inside
    return Source(Path(text).name, owner_and_name, options)


def pinned(source: Source) -> Source:
    """The source at the commit that its revision means now, so that all is read of one state.

    A folder, and a hub id whose commit cannot be learned, come back as they are.
    """
    if source.local:
        return source
    found = resolve_revision(source.location, source.revision)
    commit = getattr(found, "resolved", None)
    return (
        source if commit is None else replace(source, options=source.options | {"revision": commit})
    )


def read_config(source: Source) -> Any:
    """The model's configuration.

    Raises:
        ModelError: not a causal language model.
        CacheError: a model whose cache cannot be rolled back.
    """
    with told_in_one_sentence(source.location, "configuration"):
        config = AutoConfig.from_pretrained(source.location, **source.options)
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING or getattr(
        config, "is_encoder_decoder", False
    ):
        raise ModelError(
            f"expected a causal language model, {source.name} is of type {config.model_type}: "
            "name a decoder-only model"
        )
    reason = no_rollback(config)
    if reason is not None:
        raise CacheError(
            f"expected a model whose cache can be rolled back, {source.name} {reason}, so a "
            "refused step could not be taken back: name a model with ordinary attention"
        )
    return config


def no_rollback(config: Any) -> str | None:
    """Why this kind of model cannot forget its last tokens, or None where it can."""
    try:
        layers = DynamicCache(config=config).layers
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    recurrent = sum(isinstance(layer, LinearAttentionCacheLayerMixin) for layer in layers)
    if recurrent or config.model_type in ("rwkv", "xlstm"):
        total = len(layers)
        which = (
            "all its layers" if recurrent in (0, total) else f"{recurrent} of its {total} layers"
        )
        return f"({config.model_type}) keeps one running state in {which}"
    return None


def read_tokenizer(source: Source) -> Any:
    """The fast tokenizer of a model.

    Raises:
        ModelError: none there, or one that cannot say where tokens lie in a text.
    """
    with told_in_one_sentence(source.location, "tokenizer"):
        tokenizer = AutoTokenizer.from_pretrained(source.location, **source.options)
    if not tokenizer.is_fast:
        raise ModelError(
            f"expected a fast tokenizer (tokenizer.json) at {source.location}, got "
            f"{type(tokenizer).__name__}: convert it with save_pretrained"
        )
    return tokenizer


def eos_token_ids(source: Source, config: Any, tokenizer: Any) -> frozenset[int]:
    """Every id that ends a text, by generation config, config and tokenizer."""
    found: list[Any] = [config.get_text_config().eos_token_id, tokenizer.eos_token_id]
    if not source.gguf:
        try:
            generation = GenerationConfig.from_pretrained(source.location, **source.options)
        except OSError:
            generation = None
        found.append(getattr(generation, "eos_token_id", None))
    ids: set[int] = set()
    for value in found:
        values = value if isinstance(value, list | tuple) else [value]
        ids.update(int(token_id) for token_id in values if token_id is not None)
    return frozenset(ids)


def require_same_tokenizer(draft: Any, target: Any) -> None:
    """
    Raises:
        PairError: names the first token that differs.
    """
    difference = first_difference(draft, target)
    if difference is not None:
        raise PairError(
            f"expected draft and target to share a tokenizer, but {difference}: "
            "name two models of one family"
        )


def context_length(config: Any) -> int:
    """Most positions the model can take."""
    text = config.get_text_config()
    for name in ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length"):
        value = getattr(text, name, None)
        if isinstance(value, int) and value > 0:
            return value
    return _UNBOUNDED_CONTEXT


def architecture(config: Any) -> str:
    """The class a load would give."""
    return str(_model_class(config).__name__)


def no_grounding(config: Any) -> str | None:
    """Why attention of this kind of model cannot be recorded, as far as its class tells."""
    kind = _model_class(config)
    if kind._can_set_attn_implementation():
        return None
    return (
        f"{kind.__name__} computes attention in a way of its own, outside transformers' "
        "attention interface: confidence only"
    )


def _model_class(config: Any) -> Any:
    found = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
    return found[0] if isinstance(found, list | tuple) else found
