#include "runtime/parameters/tensor_names.h"

#include <array>
#include <span>

namespace foretrain {
namespace {

// Maps a name that starts with `ours` to `theirs`; the rest of the name stays. {} stands for the
// layer's number.
struct Rule {
  std::string_view ours;
  std::string_view theirs;
};

constexpr Rule kLlama[] = {
    {"embedding.tokens.", "model.embed_tokens."},
    {"head.norm.", "model.norm."},
    {"head.", "lm_head."},
    {"norm1.", "model.layers.{}.input_layernorm."},
    {"norm2.", "model.layers.{}.post_attention_layernorm."},
    {"attention.q_norm.", "model.layers.{}.self_attn.q_norm."},
    {"attention.k_norm.", "model.layers.{}.self_attn.k_norm."},
    {"attention.q.", "model.layers.{}.self_attn.q_proj."},
    {"attention.k.", "model.layers.{}.self_attn.k_proj."},
    {"attention.v.", "model.layers.{}.self_attn.v_proj."},
    {"attention.out.", "model.layers.{}.self_attn.o_proj."},
    {"attention.q_down.norm.", "model.layers.{}.self_attn.q_a_layernorm."},
    {"attention.q_down.", "model.layers.{}.self_attn.q_a_proj."},
    {"attention.q_up.", "model.layers.{}.self_attn.q_b_proj."},
    {"attention.kv_down.norm.", "model.layers.{}.self_attn.kv_a_layernorm."},
    {"attention.kv_down.", "model.layers.{}.self_attn.kv_a_proj_with_mqa."},
    {"attention.kv_up.", "model.layers.{}.self_attn.kv_b_proj."},
    {"attention.sinks", "model.layers.{}.self_attn.sinks"},
    {"tokens.norm.", "model.layers.{}.enorm."},
    {"hidden.norm.", "model.layers.{}.hnorm."},
    {"projection.", "model.layers.{}.eh_proj."},
    {"norm.", "model.layers.{}.shared_head.norm."},
    {"mlp.gate.", "model.layers.{}.mlp.gate_proj."},
    {"mlp.up.", "model.layers.{}.mlp.up_proj."},
    {"mlp.down.", "model.layers.{}.mlp.down_proj."},
};
// Latent attention without low-rank queries.
constexpr Rule kStraightQueries[] = {
    {"attention.q_up.", "model.layers.{}.self_attn.q_proj."},
};
// Rules of the families below take precedence over Llama's.
constexpr Rule kGemma2[] = {
    {"attention.post_norm.", "model.layers.{}.post_attention_layernorm."},
    {"norm2.", "model.layers.{}.pre_feedforward_layernorm."},
    {"mlp.post_norm.", "model.layers.{}.post_feedforward_layernorm."},
};
constexpr Rule kGlm4[] = {
    {"attention.post_norm.", "model.layers.{}.post_self_attn_layernorm."},
    {"mlp.post_norm.", "model.layers.{}.post_mlp_layernorm."},
};
constexpr Rule kPhi[] = {
    {"head.norm.", "model.final_layernorm."},
    {"attention.out.", "model.layers.{}.self_attn.dense."},
    {"mlp.up.", "model.layers.{}.mlp.fc1."},
    {"mlp.down.", "model.layers.{}.mlp.fc2."},
};
constexpr Rule kStarCoder2[] = {
    {"mlp.up.", "model.layers.{}.mlp.c_fc."},
    {"mlp.down.", "model.layers.{}.mlp.c_proj."},
};
constexpr Rule kOpt[] = {
    {"embedding.tokens.", "model.decoder.embed_tokens."},
    {"embedding.positions.", "model.decoder.embed_positions."},
    {"head.norm.", "model.decoder.final_layer_norm."},
    {"norm1.", "model.decoder.layers.{}.self_attn_layer_norm."},
    {"norm2.", "model.decoder.layers.{}.final_layer_norm."},
    {"attention.q.", "model.decoder.layers.{}.self_attn.q_proj."},
    {"attention.k.", "model.decoder.layers.{}.self_attn.k_proj."},
    {"attention.v.", "model.decoder.layers.{}.self_attn.v_proj."},
    {"attention.out.", "model.decoder.layers.{}.self_attn.out_proj."},
    {"mlp.up.", "model.decoder.layers.{}.fc1."},
    {"mlp.down.", "model.decoder.layers.{}.fc2."},
};
constexpr Rule kNeoX[] = {
    {"embedding.tokens.", "gpt_neox.embed_in."},
    {"head.norm.", "gpt_neox.final_layer_norm."},
    {"head.", "embed_out."},
    {"norm1.", "gpt_neox.layers.{}.input_layernorm."},
    {"norm2.", "gpt_neox.layers.{}.post_attention_layernorm."},
    {"attention.out.", "gpt_neox.layers.{}.attention.dense."},
    {"mlp.up.", "gpt_neox.layers.{}.mlp.dense_h_to_4h."},
    {"mlp.down.", "gpt_neox.layers.{}.mlp.dense_4h_to_h."},
};
constexpr Rule kGptJ[] = {
    {"embedding.tokens.", "transformer.wte."},
    {"head.norm.", "transformer.ln_f."},
    {"norm1.", "transformer.h.{}.ln_1."},
    {"attention.q.", "transformer.h.{}.attn.q_proj."},
    {"attention.k.", "transformer.h.{}.attn.k_proj."},
    {"attention.v.", "transformer.h.{}.attn.v_proj."},
    {"attention.out.", "transformer.h.{}.attn.out_proj."},
    {"mlp.up.", "transformer.h.{}.mlp.fc_in."},
    {"mlp.down.", "transformer.h.{}.mlp.fc_out."},
};
constexpr Rule kBloom[] = {
    {"embedding.tokens.", "transformer.word_embeddings."},
    {"embedding.norm.", "transformer.word_embeddings_layernorm."},
    {"head.norm.", "transformer.ln_f."},
    {"norm1.", "transformer.h.{}.input_layernorm."},
    {"norm2.", "transformer.h.{}.post_attention_layernorm."},
    {"attention.out.", "transformer.h.{}.self_attention.dense."},
    {"mlp.up.", "transformer.h.{}.mlp.dense_h_to_4h."},
    {"mlp.down.", "transformer.h.{}.mlp.dense_4h_to_h."},
};
constexpr Rule kMpt[] = {
    {"embedding.tokens.", "transformer.wte."},
    {"head.norm.", "transformer.norm_f."},
    {"norm1.", "transformer.blocks.{}.norm_1."},
    {"norm2.", "transformer.blocks.{}.norm_2."},
    {"attention.out.", "transformer.blocks.{}.attn.out_proj."},
    {"mlp.up.", "transformer.blocks.{}.ffn.up_proj."},
    {"mlp.down.", "transformer.blocks.{}.ffn.down_proj."},
};
// With the prefix "" or "transformer.".
constexpr Rule kGpt2[] = {
    {"embedding.tokens.", "wte."}, {"embedding.positions.", "wpe."},
    {"head.norm.", "ln_f."},       {"norm1.", "h.{}.ln_1."},
    {"norm2.", "h.{}.ln_2."},      {"attention.out.", "h.{}.attn.c_proj."},
    {"mlp.up.", "h.{}.mlp.c_fc."}, {"mlp.down.", "h.{}.mlp.c_proj."},
};

// Layout of q, k and v in the file: separate, one tensor after the other, or interleaved by head.
enum class Qkv { kApart, kBehindEachOther, kByHead };

// Families are tried in order, and the first whose mark is in the file counts. A mark must
// therefore be missing from all later families' files.
struct Library {
  std::string_view mark;  // tensor that this family has and earlier ones do not
  std::span<const Rule> rules;
  Qkv qkv = Qkv::kApart;
  std::string_view packed = "";  // tensor that holds q, k and v
  bool gate_up = false;          // gate and up are one tensor
  bool pairs_adjacent = false;   // rotary pairs are adjacent
  bool is_gpt2 = false;
};
constexpr std::string_view kLlamaPacked = "model.layers.{}.self_attn.qkv_proj.";
constexpr std::array kLibraries = {
    Library{.mark = "h.0.attn.c_attn.weight",
            .rules = kGpt2,
            .qkv = Qkv::kBehindEachOther,
            .packed = "h.{}.attn.c_attn.",
            .is_gpt2 = true},
    Library{.mark = "transformer.h.0.attn.q_proj.weight", .rules = kGptJ, .pairs_adjacent = true},
    Library{.mark = "gpt_neox.layers.0.attention.query_key_value.weight",
            .rules = kNeoX,
            .qkv = Qkv::kByHead,
            .packed = "gpt_neox.layers.{}.attention.query_key_value."},
    Library{.mark = "transformer.word_embeddings_layernorm.weight",
            .rules = kBloom,
            .qkv = Qkv::kByHead,
            .packed = "transformer.h.{}.self_attention.query_key_value."},
    Library{.mark = "transformer.blocks.0.norm_1.weight",
            .rules = kMpt,
            .qkv = Qkv::kBehindEachOther,
            .packed = "transformer.blocks.{}.attn.Wqkv."},
    Library{.mark = "model.decoder.layers.0.fc1.weight", .rules = kOpt},
    Library{.mark = "model.layers.0.mlp.fc1.weight", .rules = kPhi},
    Library{.mark = "model.layers.0.mlp.c_fc.weight", .rules = kStarCoder2},
    Library{.mark = "model.layers.0.pre_feedforward_layernorm.weight", .rules = kGemma2},
    Library{.mark = "model.layers.0.post_self_attn_layernorm.weight",
            .rules = kGlm4,
            .gate_up = true,
            .pairs_adjacent = true},
    Library{.mark = "model.layers.0.self_attn.qkv_proj.weight",
            .rules = {},
            .qkv = Qkv::kBehindEachOther,
            .packed = kLlamaPacked,
            .gate_up = true},
    Library{.mark = "model.layers.0.mlp.gate_up_proj.weight",
            .rules = {},
            .gate_up = true,
            .pairs_adjacent = true},
};
constexpr Library kPlainLlama{.mark = "", .rules = {}};

// Splits "layers.3.mlp.up.weight" into "3" and "mlp.up.weight"; other names have no layer.
struct OurName {
  std::string_view layer;
  std::string_view rest;
};
OurName Parse(std::string_view name) {
  constexpr std::string_view kLayers = "layers.";
  if (!name.starts_with(kLayers)) return {"", name};
  name.remove_prefix(kLayers.size());
  const auto dot = name.find('.');
  return {name.substr(0, dot), name.substr(dot + 1)};
}

std::string InLayer(std::string_view pattern, std::string_view layer) {
  std::string name(pattern);
  if (const auto at = name.find("{}"); at != std::string::npos) name.replace(at, 2, layer);
  return name;
}

// The name by the first rule that matches; "" if none does.
std::string Renamed(std::span<const Rule> rules, const OurName& ours) {
  for (const Rule& rule : rules) {
    const bool of_layer = rule.theirs.find("{}") != std::string_view::npos;
    if (of_layer != !ours.layer.empty() || !ours.rest.starts_with(rule.ours)) continue;
    return InLayer(rule.theirs, ours.layer) + std::string(ours.rest.substr(rule.ours.size()));
  }
  return {};
}

// Names of experts: "experts.3.mlp.up.weight", "shared.mlp.up.weight", "router.weight".
std::string NameOfExperts(const HasTensor& has, const OurName& ours) {
  const std::string layer = "model.layers." + std::string(ours.layer) + ".";
  const bool mixtral = has(layer + "block_sparse_moe.gate.weight");
  if (ours.rest == "router.weight") {
    if (has(layer + "mlp.router.weight")) return layer + "mlp.router.weight";
    return layer + (mixtral ? "block_sparse_moe.gate.weight" : "mlp.gate.weight");
  }
  if (ours.rest == "router.bias") return layer + "mlp.router.bias";
  if (ours.rest == "router.choice.bias") return layer + "mlp.gate.e_score_correction_bias";
  std::string_view rest = ours.rest;
  std::string base;
  if (rest == "shared.gate.weight") return layer + "mlp.shared_expert_gate.weight";
  if (rest.starts_with("shared.")) {
    const std::string plural = layer + "mlp.shared_experts.";
    base = has(plural + "up_proj.weight") ? plural : layer + "mlp.shared_expert.";
    rest.remove_prefix(7);
  } else if (rest.starts_with("experts.")) {
    const auto end = rest.find('.', 8);
    base = layer + (mixtral ? "block_sparse_moe." : "mlp.") + std::string(rest.substr(0, end + 1));
    rest.remove_prefix(end + 1);
  } else {
    return {};
  }
  constexpr std::array<std::array<std::string_view, 3>, 3> kProjections = {
      {{"mlp.gate.weight", "gate_proj.weight", "w1.weight"},
       {"mlp.up.weight", "up_proj.weight", "w3.weight"},
       {"mlp.down.weight", "down_proj.weight", "w2.weight"}}};
  for (const auto& [name, theirs, of_mixtral] : kProjections) {
    if (rest == name) return base + std::string(mixtral ? of_mixtral : theirs);
  }
  return {};
}

// True for the weight of a norm. Its bias is stored as it is in all families.
bool IsNorm(std::string_view rest) {
  return rest.find("norm") != std::string_view::npos && rest.ends_with(".weight");
}

// The family of a file, and the prefix of its names.
struct Found {
  const Library& library;
  std::string prefix;
};
Found FindLibrary(const HasTensor& has) {
  for (const Library& library : kLibraries) {
    for (const char* prefix : {"", "transformer."}) {
      if (has(prefix + std::string(library.mark))) return {library, prefix};
      if (!library.is_gpt2) break;
    }
  }
  return {kPlainLlama, ""};
}

// Finds q, k or v in a packed tensor; false if the family stores them separately.
bool FromPacked(const Found& found, const ModelSpec& model, const OurName& ours, FileTensor& out) {
  if (found.library.qkv == Qkv::kApart) return false;
  const std::int64_t q = model.heads * model.head_dim, kv = model.kv_heads * model.head_dim;
  const std::array<std::pair<std::string_view, std::int64_t>, 3> parts = {
      {{"attention.q.", 0}, {"attention.k.", q}, {"attention.v.", q + kv}}};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!ours.rest.starts_with(parts[i].first)) continue;
    out.name = found.prefix + InLayer(found.library.packed, ours.layer) +
               std::string(ours.rest.substr(parts[i].first.size()));
    if (found.library.qkv == Qkv::kByHead) {
      out.interleaved = 3;
      out.part = static_cast<std::int64_t>(i);
      out.head_dim = model.head_dim;
    } else {
      out.first_row = parts[i].second;
    }
    return true;
  }
  return false;
}

// The gate's rows come first, then those of up.
bool FromGateUp(const Library& library, const ModelSpec& model, const OurName& ours,
                FileTensor& out) {
  const bool gate = ours.rest.starts_with("mlp.gate."), up = ours.rest.starts_with("mlp.up.");
  if (!library.gate_up || !(gate || up)) return false;
  out.name = InLayer("model.layers.{}.mlp.gate_up_proj.", ours.layer) +
             std::string(ours.rest.substr(ours.rest.find('.', 4) + 1));
  out.first_row = gate ? 0 : model.ffn_hidden;
  return true;
}

// gpt-oss stores all experts in one tensor [experts, in, out], with gate and up interleaved.
bool FromStackedExperts(const HasTensor& has, const ModelSpec& model, const OurName& ours,
                        FileTensor& out) {
  constexpr std::string_view kExperts = "experts.";
  if (!ours.rest.starts_with(kExperts)) return false;
  const std::string base = "model.layers." + std::string(ours.layer) + ".mlp.experts.";
  if (!has(base + "gate_up_proj_bias")) return false;
  const std::int64_t expert = std::stoll(std::string(ours.rest.substr(kExperts.size())));
  const bool down = ours.rest.find(".mlp.down.") != std::string_view::npos;
  const bool bias = ours.rest.ends_with(".bias");
  const std::int64_t width = model.expert_ffn_hidden;
  out.name = base + (down ? "down_proj" : "gate_up_proj") + (bias ? "_bias" : "");
  out.stacked = out.transposed = true;
  if (!down) {
    out.interleaved = 2;
    out.head_dim = 1;
    out.part = ours.rest.find(".mlp.up.") != std::string_view::npos ? 1 : 0;
  }
  if (bias) {
    out.first_row = expert * (down ? model.hidden : 2 * width);
  } else {
    out.first_col = expert * (down ? width : model.hidden);
  }
  return true;
}

// Marks the part of each head that uses RoPE (multi-head latent attention). Queries have the
// rotated part at the end of each head. The compressed keys and values have it once, after
// key_value_rank rows.
void TurnLatentHeads(const ModelSpec& model, const OurName& ours, FileTensor& out) {
  const bool queries = ours.rest == "attention.q_up.weight";
  if (!queries && ours.rest != "attention.kv_down.weight") return;
  out.turned = model.rope_head_dim;
  out.turned_first = queries ? model.head_dim - model.rope_head_dim : model.key_value_rank;
  out.head_dim = out.turned_first + out.turned;
}

// A multi-token prediction (MTP) layer is stored as one more layer in published files.
ParameterPlace AsLayer(const ModelSpec& model, const ParameterPlace& place) {
  ParameterPlace layer = place;
  for (std::int64_t depth = 0; depth < model.predict_ahead; ++depth) {
    const std::string prefix = "ahead." + std::to_string(depth) + ".";
    if (!place.name.starts_with(prefix)) continue;
    layer.name =
        "layers." + std::to_string(model.layers + depth) + "." + place.name.substr(prefix.size());
  }
  return layer;
}

}  // namespace

// In the turned part our row i of the first half is the file's row 2 i. Row i of the second half is
// 2 i + 1.
std::int64_t FileTensor::Row(std::int64_t row) const {
  if (interleaved > 1) {
    const std::int64_t head = row / head_dim;
    return first_row + (head * interleaved + part) * head_dim + row % head_dim;
  }
  const std::int64_t at = turned > 0 ? row % head_dim - turned_first : -1;
  if (at >= 0 && at < turned) {
    const std::int64_t half = turned / 2;
    return first_row + row - at + (at < half ? 2 * at : 2 * (at - half) + 1);
  }
  return first_row + row;
}

// Special layouts are tried first, then the family's rules, then experts, then Llama's names.
FileTensor LibraryTensor(const HasTensor& has, const ModelSpec& model, const ParameterPlace& of) {
  const ParameterPlace place = AsLayer(model, of);
  const Found found = FindLibrary(has);
  const OurName ours = Parse(place.name);
  FileTensor out;
  if (FromStackedExperts(has, model, ours, out)) return out;
  if (model.IsLatent() && model.query_rank == 0) out.name = Renamed(kStraightQueries, ours);
  TurnLatentHeads(model, ours, out);
  if (!out.name.empty()) return out;
  if (!FromPacked(found, model, ours, out) && !FromGateUp(found.library, model, ours, out)) {
    out.name = Renamed(found.library.rules, ours);
    if (!out.name.empty()) out.name = found.prefix + out.name;
    if (out.name.empty()) out.name = NameOfExperts(has, ours);
    // Newer files of a family name the head as Llama does.
    const bool is_head = ours.rest == "head.weight" || ours.rest == "head.bias";
    if (out.name.empty() || (is_head && !has(out.name))) out.name = Renamed(kLlama, ours);
  }
  const bool norm = IsNorm(ours.rest);
  // GPT-BigCode has GPT-2's names but one key head, and stores weights untransposed.
  const bool conv = found.library.is_gpt2 && model.kv_heads == model.heads;
  out.transposed = conv && place.rows > 1 && !ours.layer.empty() && !norm;
  const bool turns = ours.rest.starts_with("attention.q.") || ours.rest.starts_with("attention.k.");
  if (found.library.pairs_adjacent && turns) {
    out.turned = model.RotaryDim();
    out.head_dim = model.head_dim;
  }
  const bool lacks_one = model.mlp == MlpKind::kGeglu || model.mlp == MlpKind::kSquaredRelu;
  if (lacks_one && norm) out.plus = 1.0F;
  return out;
}

}  // namespace foretrain
