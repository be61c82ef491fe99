// Longer than 400 lines: one table of names and layouts is read here, and each special layout
// changes the same FileTensor.
#include "runtime/parameters/tensor_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "base/checked.h"
#include "base/json/json.h"
#include "base/text.h"
#include "runtime/embedded_data.h"

namespace foretrain {

// q, k and v in the file: separate, one after the other, in turn for each head, or in turn for each
// head of keys: the heads of q that share it, then k and v.
enum class Joined { kApart, kJoined, kByHead, kByGroup };
// Experts in the file: separate, or in one tensor [experts, in, out], with gate and up interleaved
// (gpt-oss) or one after the other (Llama 4).
enum class Stacked { kApart, kInterleaved, kHalves };

// Families are tried in order, and the first whose mark is in the file counts. A mark must
// therefore be missing from all later families' files, or `lacks` tell them apart. A name that a
// family lacks is Llama's.
struct TensorLayout {
  std::string name;
  std::vector<std::string> types;  // of config.json
  std::string mark;    // tensors of which this family has one and later ones none: "a|b"
  std::string lacks;   // tensor that later ones have and this family does not
  std::string prefix;  // of all names; some files leave it out
  Joined qkv = Joined::kApart;
  Joined gate_up = Joined::kApart;
  bool transposed = false;
  bool pairs_adjacent = false;
  Stacked experts = Stacked::kApart;
  // Our name without "layers.N." and ".weight" to the file's. {}: the layer, {e}: the expert.
  std::map<std::string, std::string, std::less<>> names;
  std::vector<std::string> ignored;  // ends of names
};

namespace {

constexpr std::string_view kLayer = "{}", kExpert = "{e}";

// The table's choices, by the enumerators' order.
constexpr std::array<std::string_view, 4> kJoinedNames = {"apart", "joined", "by_head", "by_group"};
constexpr std::array<std::string_view, 2> kPairNames = {"apart", "adjacent"};
constexpr std::array<std::string_view, 3> kExpertNames = {"apart", "stacked", "stacked_halves"};

Result<std::vector<TensorLayout>> ParseLayouts(const EmbeddedFile& file) {
  FT_ASSIGN(const JsonValue root, ParseJson(file.text, file.path));
  JsonFields all(root, file.path);
  std::vector<TensorLayout> layouts;
  for (JsonFields& fields : all.Objects("layouts")) {
    TensorLayout layout;
    layout.name = fields.String("name");
    layout.types = fields.Strings("types");
    layout.mark = fields.String("mark");
    layout.lacks = fields.StringOr("lacks", "");
    layout.prefix = fields.StringOr("prefix", "");
    layout.qkv = static_cast<Joined>(fields.ChoiceOr("qkv", 0, kJoinedNames));
    layout.gate_up = static_cast<Joined>(fields.ChoiceOr("gate_up", 0, kJoinedNames));
    layout.transposed = fields.BoolOr("transposed", false);
    layout.pairs_adjacent = fields.ChoiceOr("rotary_pairs", 0, kPairNames) == 1;
    layout.experts = static_cast<Stacked>(fields.ChoiceOr("experts", 0, kExpertNames));
    layout.ignored = fields.StringsOr("ignored");
    JsonFields names = fields.Object("names");
    for (const std::string& name : names.names()) layout.names[name] = names.String(name);
    FT_TRY(names.Finish());
    FT_TRY(fields.Finish());
    layouts.push_back(std::move(layout));
  }
  FT_TRY(all.Finish());
  return layouts;
}

// Language models of joint files have Llama's names (Gemma 3, Llama 4, Qwen-VL and others).
constexpr std::array<JointNames, 2> kJoint = {
    {{"", "language_model."}, {"model.", "model.language_model."}}};

JointNames JointNamesOf(const HasTensor& has) {
  for (const JointNames& joint : kJoint) {
    if (has(joint.InFile("model.embed_tokens.weight"))) return joint;
  }
  return {};
}

// The last one is Llama's.
const std::vector<TensorLayout>& Layouts() {
  static const std::vector<TensorLayout> layouts = [] {
    const EmbeddedFile* const file =
        FindEmbedded(runtime_data::Files(), "runtime/parameters/tensor_names.json");
    FT_CHECK(file != nullptr);
    auto parsed = ParseLayouts(*file);
    FT_CHECK(parsed.has_value() && !parsed->empty());
    return *std::move(parsed);
  }();
  return layouts;
}

// "layers.3.experts.5.mlp.up.weight" is layer "3", expert "5" and the rest
// "experts.{e}.mlp.up.weight". Other names have no layer or no expert.
struct OurName {
  std::string layer;
  std::string expert;
  std::string rest;
};
OurName Parse(std::string_view name) {
  constexpr std::string_view kLayers = "layers.", kExperts = "experts.";
  OurName ours;
  if (name.starts_with(kLayers)) {
    name.remove_prefix(kLayers.size());
    const auto dot = name.find('.');
    ours.layer = name.substr(0, dot);
    name.remove_prefix(dot + 1);
  }
  ours.rest = name;
  if (name.starts_with(kExperts)) {
    const auto dot = name.find('.', kExperts.size());
    ours.expert = name.substr(kExperts.size(), dot - kExperts.size());
    ours.rest.replace(kExperts.size(), ours.expert.size(), kExpert);
  }
  return ours;
}

std::string Filled(std::string_view pattern, const OurName& ours) {
  std::string name(pattern);
  for (const auto& [hole, text] : {std::pair{kExpert, &ours.expert}, {kLayer, &ours.layer}}) {
    if (const auto at = name.find(hole); at != std::string::npos) {
      name.replace(at, hole.size(), *text);
    }
  }
  return name;
}

// The file's name by the longest key that `rest` is or begins with, up to a dot; "" if there is
// none. A layer's tensor needs a name with a layer, and another tensor one without.
std::string Renamed(const TensorLayout& layout, const OurName& ours, std::string_view rest) {
  for (std::string_view key = rest;; key = key.substr(0, key.rfind('.'))) {
    const auto found = layout.names.find(key);
    if (found != layout.names.end() &&
        (found->second.find(kLayer) != std::string::npos) == !ours.layer.empty()) {
      return Filled(found->second, ours) + std::string(rest.substr(key.size()));
    }
    if (key.find('.') == std::string_view::npos) return {};
  }
}

// By the family's own names, else by Llama's.
std::string NameOf(const TensorLayout& layout, const OurName& ours, std::string_view rest) {
  std::string name = Renamed(layout, ours, rest);
  if (!name.empty()) return layout.prefix + name;
  return Renamed(Layouts().back(), ours, rest);
}

// True for the weight of a norm. Its bias is stored as it is in all families.
bool IsNorm(std::string_view rest) {
  return rest.find("norm") != std::string_view::npos && rest.ends_with(".weight");
}

bool IsVector(const ParameterPlace& place, std::string_view rest) {
  const bool of_scores = rest == "shared.gate.weight";  // a matrix of one row
  return !of_scores && (place.rows == 1 || rest == "head.bias");
}

// Finds q, k or v in a joined tensor; false if the family stores them separately.
bool FromJoined(const TensorLayout& layout, const ModelSpec& model, const OurName& ours,
                FileTensor& out) {
  if (layout.qkv == Joined::kApart) return false;
  // Rows of q, k and v that follow one another: all, those of one head, or those of one group.
  const bool together = layout.qkv == Joined::kJoined;
  const std::int64_t groups = together                        ? 1
                              : layout.qkv == Joined::kByHead ? model.heads
                                                              : model.kv_heads;
  const std::int64_t q = model.heads * model.head_dim / groups;
  const std::int64_t kv = model.kv_heads * model.head_dim / groups;
  struct Part {
    std::string_view name;
    std::int64_t first, rows;
  };
  for (const Part& part : {Part{"attention.q.", 0, q}, Part{"attention.k.", q, kv},
                           Part{"attention.v.", q + kv, kv}}) {
    if (!ours.rest.starts_with(part.name)) continue;
    out.name = NameOf(layout, ours, "attention.qkv." + ours.rest.substr(part.name.size()));
    out.first_row = part.first;
    if (!together) {
      out.each = part.rows;
      out.apart = q + 2 * kv;
    }
    return true;
  }
  return false;
}

// The gate's rows come first, then those of up. Experts have them joined if the table names it.
bool FromGateUp(const TensorLayout& layout, const ModelSpec& model, const OurName& ours,
                FileTensor& out) {
  constexpr std::string_view kMlp = "mlp.", kShared = "shared.";
  const std::size_t mlp = ours.rest.find(kMlp);
  if (layout.gate_up == Joined::kApart || !model.IsGated() || mlp == std::string::npos) {
    return false;
  }
  const std::string_view part = std::string_view(ours.rest).substr(mlp + kMlp.size());
  const bool gate = part.starts_with("gate.");
  if (!gate && !part.starts_with("up.")) return false;
  const std::string name =
      NameOf(layout, ours,
             ours.rest.substr(0, mlp) + "mlp.gate_up" + std::string(part.substr(part.find('.'))));
  if (name.empty()) return false;
  out.name = name;
  if (gate) return true;
  out.first_row = !ours.expert.empty()             ? model.expert_ffn_hidden
                  : ours.rest.starts_with(kShared) ? model.shared_ffn_hidden
                                                   : model.ffn_hidden;
  return true;
}

// Finds an expert's tensor in that of all experts; false if the family stores them separately.
bool FromStackedExperts(const TensorLayout& layout, const ModelSpec& model, const OurName& ours,
                        FileTensor& out) {
  if (layout.experts == Stacked::kApart || ours.expert.empty()) return false;
  const std::int64_t expert = std::stoll(ours.expert);
  const bool down = ours.rest.find(".mlp.down.") != std::string::npos;
  const bool bias = ours.rest.ends_with(".bias");
  const std::int64_t width = model.expert_ffn_hidden;
  const bool up = ours.rest.find(".mlp.up.") != std::string::npos;
  out.name = NameOf(layout, ours, "experts") + "." + (down ? "down_proj" : "gate_up_proj") +
             (bias ? "_bias" : "");
  out.stacked = out.transposed = true;
  if (!down && layout.experts == Stacked::kInterleaved) {
    out.each = 1;
    out.apart = 2;
    out.first_row = up ? 1 : 0;
  } else if (up) {
    out.first_row = width;
  }
  if (bias) {
    out.first_row += expert * (down ? model.hidden : 2 * width);
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

// A post-norm layer's second norm is our norm1 of the next layer, or the final norm; our first
// norm1 is the norm of the embeddings.
std::string AsPostNorm(const ModelSpec& model, const std::string& name) {
  const auto after = [&](std::int64_t layer, std::string_view rest) {
    return "layers." + std::to_string(layer) + ".norm_after" + std::string(rest);
  };
  constexpr std::string_view kFinal = "head.norm";
  if (name.starts_with(kFinal)) return after(model.layers - 1, name.substr(kFinal.size()));
  const auto at = name.find(".norm1.");
  if (at == std::string::npos) return name;
  const std::string rest = name.substr(name.rfind('.'));
  const std::int64_t layer = std::stoll(name.substr(std::string_view("layers.").size()));
  return layer == 0 ? "embedding.norm" + rest : after(layer - 1, rest);
}

// Layers of both stacks of an encoder-decoder begin at 0 in files. The norm of the encoder's output
// lies in the first decoder layer here.
std::string AsStack(const ModelSpec& model, const std::string& name) {
  constexpr std::string_view kLayers = "layers.", kOfEncoder = "encoder.norm.", kUp = "mlp.up.";
  if (!name.starts_with(kLayers)) return name;
  const auto dot = name.find('.', kLayers.size());
  const std::int64_t layer = std::stoll(name.substr(kLayers.size()));
  std::string rest = name.substr(dot + 1);
  if (rest.starts_with(kOfEncoder)) return rest;
  if (model.IsGated() && rest.starts_with(kUp)) rest.insert(kUp.rfind('u'), "gated_");
  const bool decodes = layer >= model.encoder_layers;
  return fmt::format("layers.{}.{}.{}", decodes ? layer - model.encoder_layers : layer,
                     decodes ? "decoder" : "encoder", rest);
}

// A multi-token prediction (MTP) layer is stored as one more layer in published files.
std::string AsLayer(const ModelSpec& model, const std::string& name) {
  if (model.HasEncoder()) return AsStack(model, name);
  if (model.residual_after_norm) return AsPostNorm(model, name);
  for (std::int64_t depth = 0; depth < model.predict_ahead; ++depth) {
    const std::string prefix = "ahead." + std::to_string(depth) + ".";
    if (!name.starts_with(prefix)) continue;
    return "layers." + std::to_string(model.layers + depth) + "." + name.substr(prefix.size());
  }
  return name;
}

}  // namespace

// In the turned part our row i of the first half is the file's row 2 i. Row i of the second half is
// 2 i + 1.
std::int64_t FileTensor::Row(std::int64_t row) const {
  if (each > 0) return first_row + row / each * apart + row % each;
  const std::int64_t at = turned > 0 ? row % head_dim - turned_first : -1;
  if (at >= 0 && at < turned) {
    const std::int64_t half = turned / 2;
    return first_row + row - at + (at < half ? 2 * at : 2 * (at - half) + 1);
  }
  return first_row + row;
}

std::string JointNames::InFile(std::string_view name) const {
  if (!name.starts_with(from)) return std::string(name);
  return std::string(to).append(name.substr(from.size()));
}

bool JointNames::IsOfOthers(std::string_view file_name) const {
  return file_name.starts_with(from) && !file_name.starts_with(to);
}

// Newer files of a family name the head as Llama does.
TensorNames TensorNames::OfFile(const HasTensor& file_has, const ModelSpec& model) {
  const JointNames joint = JointNamesOf(file_has);
  const HasTensor has = [&](const std::string& name) { return file_has(joint.InFile(name)); };
  for (const TensorLayout& layout : Layouts()) {
    for (const std::string& prefix : {layout.prefix, std::string()}) {
      const std::vector<std::string_view> marks = Split(layout.mark, '|');
      const bool marked = std::any_of(marks.begin(), marks.end(), [&](std::string_view mark) {
        return has(prefix + std::string(mark));
      });
      if (!layout.mark.empty() && !marked) continue;
      if (!layout.lacks.empty() && has(prefix + layout.lacks)) continue;
      TensorNames names(layout, model);
      names.prefix_ = prefix;
      names.joint_ = joint;
      const auto head = layout.names.find("head");
      names.head_as_llama_ = head == layout.names.end() ||
                             !(has(head->second + ".weight") || has(head->second + ".bias"));
      return names;
    }
  }
  TensorNames names(Layouts().back(), model);
  names.joint_ = joint;
  return names;
}

Result<TensorNames> TensorNames::OfType(std::string_view model_type, const ModelSpec& model) {
  for (const TensorLayout& layout : Layouts()) {
    if (std::find(layout.types.begin(), layout.types.end(), model_type) == layout.types.end()) {
      continue;
    }
    TensorNames names(layout, model);
    names.prefix_ = layout.prefix;
    return names;
  }
  return Fail(ErrorCode::kUnsupported,
              fmt::format("model_type \"{}\": the names of its tensors are not known",
                          Printable(model_type)));
}

FileTensor TensorNames::For(const ParameterPlace& place) const {
  FileTensor out = Alone(place);
  if (!out.name.empty()) out.name = joint_.InFile(out.name);
  return out;
}

// Special layouts are tried first, then the family's names, then Llama's.
FileTensor TensorNames::Alone(const ParameterPlace& place) const {
  const OurName ours = Parse(AsLayer(model_, place.name));
  const TensorLayout& layout = *layout_;
  FileTensor out;
  out.vector = IsVector(place, ours.rest);
  if (FromStackedExperts(layout, model_, ours, out)) return out;
  const bool straight = model_.IsLatent() && model_.query_rank == 0;
  TurnLatentHeads(model_, ours, out);
  if (straight && ours.rest == "attention.q_up.weight") {
    out.name = NameOf(layout, ours, "attention.q.weight");
    return out;
  }
  if (!FromJoined(layout, model_, ours, out) && !FromGateUp(layout, model_, ours, out)) {
    const bool is_head = ours.rest == "head.weight" || ours.rest == "head.bias";
    const TensorLayout& named = is_head && head_as_llama_ ? Layouts().back() : layout;
    out.name = NameOf(named, ours, ours.rest);
  }
  if (prefix_ != layout.prefix && out.name.starts_with(layout.prefix)) {
    out.name = prefix_ + out.name.substr(layout.prefix.size());
  }
  const bool norm = IsNorm(ours.rest);
  // GPT-BigCode has GPT-2's names but one key head, and stores weights untransposed.
  out.transposed = transposes() && place.rows > 1 && !ours.layer.empty() && !norm;
  const bool turns = ours.rest.starts_with("attention.q.") || ours.rest.starts_with("attention.k.");
  if (layout.pairs_adjacent && turns) {
    out.turned = model_.RotaryDim();
    out.head_dim = model_.head_dim;
  }
  const bool lacks_one = !model_.HasEncoder() &&
                         (model_.mlp == MlpKind::kGeglu || model_.mlp == MlpKind::kSquaredRelu);
  if (lacks_one && norm) out.plus = 1.0F;
  return out;
}

bool TensorNames::Ignores(std::string_view file_name) const {
  if (joint_.IsOfOthers(file_name)) return true;
  if (model_.tied_embeddings && file_name == joint_.InFile("lm_head.weight")) return true;
  const auto ends = [&](const std::string& end) { return file_name.ends_with(end); };
  return std::any_of(layout_->ignored.begin(), layout_->ignored.end(), ends);
}

TensorNames TensorNames::Loaded() const {
  TensorNames names(*layout_, model_);
  names.prefix_ = layout_->prefix;
  names.head_as_llama_ = head_as_llama_;
  return names;
}

bool TensorNames::transposes() const {
  return layout_->transposed && model_.kv_heads == model_.heads;
}

}  // namespace foretrain
