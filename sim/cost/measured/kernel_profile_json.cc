#include "sim/cost/measured/kernel_profile_json.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include "base/embedded.h"
#include "base/json/json.h"
#include "sim/cost/measured/kernel_terms.h"
#include "sim/embedded_data.h"

namespace foretrain {
namespace {

constexpr std::string_view kFolder = "sim/cost/measured/devices/";
constexpr std::int64_t kMaxCount = std::int64_t{1} << 40;
constexpr std::size_t kMaxAnchors = 2000;
constexpr double kMin = 1e-15, kMax = 1e18;

// The sizes of a shape by name, and setting one of them.
template <class Shape>
struct Size {
  std::string_view name;
  std::int64_t Shape::*value;
};
constexpr std::array<Size<ProductShape>, 3> kProductSizes = {
    {{"m", &ProductShape::m}, {"n", &ProductShape::n}, {"k", &ProductShape::k}}};
constexpr std::array<Size<AttentionShape>, 5> kAttentionSizes = {
    {{"batch", &AttentionShape::batch},
     {"sequence", &AttentionShape::sequence},
     {"heads", &AttentionShape::heads},
     {"kv_heads", &AttentionShape::kv_heads},
     {"head_dim", &AttentionShape::head_dim}}};
constexpr std::array<Size<ExpertsShape>, 7> kExpertsSizes = {
    {{"tokens", &ExpertsShape::tokens},
     {"hidden", &ExpertsShape::hidden},
     {"ffn_hidden", &ExpertsShape::ffn_hidden},
     {"topk", &ExpertsShape::topk},
     {"experts", &ExpertsShape::experts},
     {"tp", &ExpertsShape::tp},
     {"ep", &ExpertsShape::ep}}};

constexpr std::array<Size<CollectiveShape>, 2> kCollectiveSizes = {
    {{"bytes", &CollectiveShape::bytes}, {"members", &CollectiveShape::members}}};
constexpr std::array<Size<ExchangeShape>, 6> kExchangeSizes = {
    {{"nodes", &ExchangeShape::nodes},
     {"hidden", &ExchangeShape::hidden},
     {"tokens", &ExchangeShape::tokens},
     {"topk", &ExchangeShape::topk},
     {"experts", &ExchangeShape::experts},
     {"multiprocessors", &ExchangeShape::multiprocessors}}};

template <class Shape>
std::vector<FieldPoint> PointsOf(const std::vector<Shape>& shapes) {
  std::vector<FieldPoint> out;
  for (const Shape& shape : shapes) out.push_back(PointOf(shape));
  return out;
}

// Loads of experts' anchors as numbers from 0; other shapes have none.
template <class Shape>
void ReadLoads(JsonFields& fields, std::vector<Shape>& anchors) {
  if constexpr (std::is_same_v<Shape, ExpertsShape>) {
    const std::vector<std::int64_t> loads = fields.Integers("load", 0, kExpertLoadCount - 1);
    if (loads.size() != anchors.size()) {
      fields.Refuse("load", "must be as long as the lists of the sizes");
      return;
    }
    for (std::size_t i = 0; i < loads.size(); ++i) {
      anchors[i].load = static_cast<ExpertLoad>(loads[i]);
    }
  }
}

template <class Shape>
void WriteLoads(JsonWriter& json, const std::vector<Shape>& anchors) {
  if constexpr (std::is_same_v<Shape, ExpertsShape>) {
    json.Name("load").BeginArray();
    for (const ExpertsShape& anchor : anchors) json.Integer(static_cast<int>(anchor.load));
    json.EndArray();
  }
}

// One list for each size, all of one length.
template <class Shape, std::size_t kSizes>
std::vector<Shape> ReadAnchors(JsonFields& fields, const std::array<Size<Shape>, kSizes>& sizes) {
  std::vector<Shape> out;
  for (const auto& [name, value] : sizes) {
    const std::vector<std::int64_t> list = fields.Integers(name, 1, kMaxCount);
    if (out.empty()) out.resize(list.size());
    if (list.size() != out.size() || list.size() > kMaxAnchors) {
      fields.Refuse(name, "must be as long as the lists of the other sizes, at most 2000");
      return {};
    }
    for (std::size_t i = 0; i < list.size(); ++i) out[i].*value = list[i];
  }
  ReadLoads(fields, out);
  return out;
}

template <class Shape, std::size_t kSizes>
void WriteAnchors(JsonWriter& json, const std::vector<Shape>& anchors,
                  const std::array<Size<Shape>, kSizes>& sizes) {
  for (const auto& [name, value] : sizes) {
    json.Name(name).BeginArray();
    for (const Shape& anchor : anchors) json.Integer(anchor.*value);
    json.EndArray();
  }
  WriteLoads(json, anchors);
}

// Reads what all kinds have: terms, error and, with anchors, the field.
template <class Terms>
MeasuredKernel<Terms> ReadKernel(JsonFields& fields, const std::vector<FieldPoint>& anchors) {
  MeasuredKernel<Terms> out;
  out.error.rows = static_cast<int>(fields.Integer("rows", 1, 1 << 30));
  out.error.median = fields.Number("median_error", 0, 10);
  out.error.p90 = fields.Number("p90_error", 0, 10);
  JsonFields terms = fields.Object("terms");
  for (const NamedTerm& term : TermsOf(out.terms)) {
    *term.value = terms.Number(term.name, kMin, term.max);
  }
  (void)terms.Finish();  // the error is shared with `fields`, which the caller finishes
  if (anchors.empty()) return out;
  out.field.anchors = anchors;
  out.field.reach = fields.Number("reach", 0.01, 100);
  out.field.offset = fields.Number("offset", -10, 10);
  out.field.weights = fields.Numbers("weights", -100, 100);
  if (out.field.weights.size() != anchors.size()) {
    fields.Refuse("weights", "must have one number for each anchor");
  }
  return out;
}

template <class Terms>
void WriteKernel(JsonWriter& json, const MeasuredKernel<Terms>& kernel) {
  json.Field("rows", kernel.error.rows).Field("median_error", kernel.error.median);
  json.Field("p90_error", kernel.error.p90).Name("terms").BeginObject();
  Terms terms = kernel.terms;
  for (const NamedTerm& term : TermsOf(terms)) json.Field(term.name, *term.value);
  json.EndObject();
  if (kernel.field.anchors.empty()) return;
  json.Field("reach", kernel.field.reach).Field("offset", kernel.field.offset);
  json.Name("weights").BeginArray();
  for (const double weight : kernel.field.weights) json.Number(weight);
  json.EndArray();
}

template <class Shape, class Terms, std::size_t kSizes>
MeasuredFormats<Shape, Terms> ReadFormats(JsonFields& fields,
                                          const std::array<Size<Shape>, kSizes>& sizes) {
  MeasuredFormats<Shape, Terms> out;
  JsonFields anchors = fields.Object("anchors");
  out.anchors = ReadAnchors(anchors, sizes);
  (void)anchors.Finish();
  const std::vector<FieldPoint> points = PointsOf(out.anchors);
  for (JsonFields& entry : fields.Objects("formats")) {
    const std::string name = entry.String("format", 64);
    const std::optional<ProductFormat> format = ParseProductFormat(name);
    if (!format.has_value()) {
      entry.Refuse("format", "must be bfloat16, fp8, fp8_block or nvfp4");
      continue;
    }
    out.formats[static_cast<std::size_t>(*format)] = ReadKernel<Terms>(entry, points);
    (void)entry.Finish();
  }
  return out;
}

template <class Shape, class Terms, std::size_t kSizes>
void WriteFormats(JsonWriter& json, std::string_view name,
                  const MeasuredFormats<Shape, Terms>& kind,
                  const std::array<Size<Shape>, kSizes>& sizes) {
  if (kind.anchors.empty()) return;
  json.Name(name).BeginObject().Name("anchors").BeginObject();
  WriteAnchors(json, kind.anchors, sizes);
  json.EndObject().Name("formats").BeginArray();
  for (std::size_t i = 0; i < kind.formats.size(); ++i) {
    if (!kind.formats[i].has_value()) continue;
    json.BeginObject().Field("format", Name(static_cast<ProductFormat>(i)));
    WriteKernel(json, *kind.formats[i]);
    json.EndObject();
  }
  json.EndArray().EndObject();
}

// A kernel without anchors of its own field.
template <class Terms>
void ReadPlain(JsonFields& fields, std::string_view name,
               std::optional<MeasuredKernel<Terms>>& out) {
  if (std::optional<JsonFields> kernel = fields.ObjectOr(name)) {
    out = ReadKernel<Terms>(*kernel, {});
    (void)kernel->Finish();
  }
}

template <class Terms>
void WritePlain(JsonWriter& json, std::string_view name,
                const std::optional<MeasuredKernel<Terms>>& kernel) {
  if (!kernel.has_value()) return;
  json.Name(name).BeginObject();
  WriteKernel(json, *kernel);
  json.EndObject();
}

// Three numbers for each format whose table has several libraries.
void ReadBestProducts(JsonFields& fields, KernelProfile& profile) {
  std::optional<JsonFields> formats = fields.ObjectOr("best_products");
  if (!formats.has_value()) return;
  for (const std::string& name : formats->names()) {
    const std::optional<ProductFormat> format = ParseProductFormat(name);
    const std::vector<double> shares = formats->Numbers(name, 0.01, 1);
    if (!format.has_value() || shares.size() != BestShare{}.size()) {
      formats->Refuse(name, "must be bfloat16, fp8, fp8_block or nvfp4 with three numbers");
      break;
    }
    BestShare& best = profile.best_products[static_cast<std::size_t>(*format)].emplace();
    std::copy(shares.begin(), shares.end(), best.begin());
  }
  (void)formats->Finish();
}

void WriteBestProducts(JsonWriter& json, const KernelProfile& profile) {
  json.Name("best_products").BeginObject();
  for (std::size_t i = 0; i < profile.best_products.size(); ++i) {
    if (!profile.best_products[i].has_value()) continue;
    json.Name(Name(static_cast<ProductFormat>(i))).BeginArray();
    for (const double share : *profile.best_products[i]) json.Number(share);
    json.EndArray();
  }
  json.EndObject();
}

void ReadAttentionForward(JsonFields& fields, KernelProfile& profile) {
  std::optional<JsonFields> kernel = fields.ObjectOr("attention_forward");
  if (!kernel.has_value()) return;
  JsonFields anchors = kernel->Object("anchors");
  profile.attention_anchors = ReadAnchors(anchors, kAttentionSizes);
  (void)anchors.Finish();
  for (AttentionShape& anchor : profile.attention_anchors) anchor.value_dim = anchor.head_dim;
  profile.attention_forward =
      ReadKernel<AttentionTerms>(*kernel, PointsOf(profile.attention_anchors));
  (void)kernel->Finish();
}

void ReadCollectives(JsonFields& fields, KernelProfile& profile) {
  for (JsonFields& entry : fields.ObjectsOr("collectives")) {
    const std::optional<std::size_t> at = CollectiveAt(entry.String("kind", 64));
    if (!at.has_value()) {
      entry.Refuse("kind", "must be all_gather, all_reduce, alltoall or reduce_scatter");
      continue;
    }
    CollectiveFit& fit = profile.collectives[*at].emplace();
    JsonFields anchors = entry.Object("anchors");
    fit.anchors = ReadAnchors(anchors, kCollectiveSizes);
    (void)anchors.Finish();
    fit.kernel = ReadKernel<CollectiveTerms>(entry, PointsOf(fit.anchors));
    (void)entry.Finish();
  }
}

void WriteCollectives(JsonWriter& json, const KernelProfile& profile) {
  bool any = false;
  for (const auto& fit : profile.collectives) any = any || fit.has_value();
  if (!any) return;
  json.Name("collectives").BeginArray();
  for (std::size_t i = 0; i < profile.collectives.size(); ++i) {
    const std::optional<CollectiveFit>& fit = profile.collectives[i];
    if (!fit.has_value()) continue;
    json.BeginObject().Field("kind", kMeasuredCollectives[i].name);
    json.Name("anchors").BeginObject();
    WriteAnchors(json, fit->anchors, kCollectiveSizes);
    json.EndObject();
    WriteKernel(json, fit->kernel);
    json.EndObject();
  }
  json.EndArray();
}

void ReadExchange(JsonFields& fields, KernelProfile& profile) {
  std::optional<JsonFields> exchange = fields.ObjectOr("exchange");
  if (!exchange.has_value()) return;
  JsonFields anchors = exchange->Object("anchors");
  profile.exchange_anchors = ReadAnchors(anchors, kExchangeSizes);
  (void)anchors.Finish();
  for (std::size_t i = 0; i < kExchangePartCount; ++i) {
    JsonFields part = exchange->Object(Name(static_cast<ExchangePart>(i)));
    profile.exchanges[i] = ReadKernel<ExchangeTerms>(part, PointsOf(profile.exchange_anchors));
    (void)part.Finish();
  }
  (void)exchange->Finish();
}

// Tables have both parts in each row, so a profile has both or none.
void WriteExchange(JsonWriter& json, const KernelProfile& profile) {
  if (profile.exchange_anchors.empty()) return;
  json.Name("exchange").BeginObject().Name("anchors").BeginObject();
  WriteAnchors(json, profile.exchange_anchors, kExchangeSizes);
  json.EndObject();
  for (std::size_t i = 0; i < kExchangePartCount; ++i) {
    json.Name(Name(static_cast<ExchangePart>(i))).BeginObject();
    WriteKernel(json, *profile.exchanges[i]);
    json.EndObject();
  }
  json.EndObject();
}

// Breaks a one-line JSON text after each list and object, so that changes show by part.
std::string InLines(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    out += text[i];
    const bool end = i > 0 && text[i] == ',' && (text[i - 1] == ']' || text[i - 1] == '}');
    if (end) out += '\n';
  }
  return out + '\n';
}

}  // namespace

Result<KernelProfile> KernelProfileFromJson(std::string_view text, std::string_view file) {
  FT_ASSIGN(const JsonValue value, ParseJson(text, file));
  JsonFields fields(value, file);
  KernelProfile out;
  out.device = fields.String("device", 64);
  out.architecture = fields.String("architecture", 64);
  (void)fields.StringOr("made_by", "");
  out.machine.multiprocessors = static_cast<int>(fields.Integer("multiprocessors", 1, 1 << 20));
  out.machine.half_flop_per_s = fields.Number("half_flop_per_s", 1e9, kMax);
  out.machine.memory_bytes_per_s = fields.Number("memory_bytes_per_s", 1e6, kMax);
  out.machine.link_bytes_per_s = fields.Number("link_bytes_per_s", 0, kMax);
  out.machine.linked = fields.Bool("linked");
  out.machine.link_reduces = fields.Bool("link_reduces");
  out.memory_bytes = fields.Number("memory_bytes", 1, kMax);
  out.best_flop_per_s = fields.Number("best_flop_per_s", 0, kMax);
  if (std::optional<JsonFields> products = fields.ObjectOr("products")) {
    out.products = ReadFormats<ProductShape, GemmTerms>(*products, kProductSizes);
    (void)products->Finish();
  }
  ReadBestProducts(fields, out);
  ReadAttentionForward(fields, out);
  if (std::optional<JsonFields> experts = fields.ObjectOr("experts")) {
    out.experts = ReadFormats<ExpertsShape, ExpertsTerms>(*experts, kExpertsSizes);
    (void)experts->Finish();
  }
  ReadPlain(fields, "training", out.training);
  ReadPlain(fields, "attention_backward", out.attention_backward);
  ReadCollectives(fields, out);
  ReadExchange(fields, out);
  FT_TRY(fields.Finish());
  return out;
}

std::string KernelProfileToJson(const KernelProfile& profile, std::string_view made_by) {
  JsonWriter json;
  json.BeginObject().Field("device", profile.device).Field("architecture", profile.architecture);
  json.Field("made_by", made_by);
  json.Field("multiprocessors", profile.machine.multiprocessors);
  json.Field("half_flop_per_s", profile.machine.half_flop_per_s);
  json.Field("memory_bytes_per_s", profile.machine.memory_bytes_per_s);
  json.Field("link_bytes_per_s", profile.machine.link_bytes_per_s);
  json.Field("linked", profile.machine.linked).Field("link_reduces", profile.machine.link_reduces);
  json.Field("memory_bytes", profile.memory_bytes);
  json.Field("best_flop_per_s", profile.best_flop_per_s);
  WriteFormats(json, "products", profile.products, kProductSizes);
  WriteBestProducts(json, profile);
  if (profile.attention_forward.has_value()) {
    json.Name("attention_forward").BeginObject().Name("anchors").BeginObject();
    WriteAnchors(json, profile.attention_anchors, kAttentionSizes);
    json.EndObject();
    WriteKernel(json, *profile.attention_forward);
    json.EndObject();
  }
  WriteFormats(json, "experts", profile.experts, kExpertsSizes);
  WritePlain(json, "training", profile.training);
  WritePlain(json, "attention_backward", profile.attention_backward);
  WriteCollectives(json, profile);
  WriteExchange(json, profile);
  return InLines(json.EndObject().Take());
}

// Part of the program: a broken file is an error that the tests would show.
Result<std::vector<KernelProfile>> BuiltInKernelProfiles() {
  std::vector<KernelProfile> out;
  for (const EmbeddedFile& file : sim_data::Files()) {
    if (!file.path.starts_with(kFolder)) continue;
    FT_ASSIGN(KernelProfile profile, KernelProfileFromJson(file.text, file.path));
    out.push_back(std::move(profile));
  }
  return out;
}

}  // namespace foretrain
