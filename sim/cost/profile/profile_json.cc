// Longer than 400 lines: reader and writer of each part of a profile stand side by side, so that a
// new field is added to both at once.
#include "sim/cost/profile/profile_json.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/checked.h"
#include "base/json/json.h"
#include "sim/config/rules/refuse.h"

namespace foretrain {
namespace {

constexpr std::int64_t kSchema = 1;
constexpr double kLongest = 1e6;   // seconds of one op
constexpr double kFastest = 1e21;  // any rate, per second
constexpr int kMaxProfileRanks = 1 << 20;
constexpr std::int64_t kMaxSamples = std::int64_t{1} << 40;

// Fields are tables of name and member, so that reading and writing use one list each.
template <class T, class Member>
struct Field {
  std::string_view name;
  Member T::*member;
};

constexpr std::array<Field<ProfileRates, Figure>, 18> kRates{{
    {"gemm_flop_per_s", &ProfileRates::gemm_flop_per_s},
    {"gemm_fill_s", &ProfileRates::gemm_fill_s},
    {"attention_forward_flop_per_s", &ProfileRates::attention_forward_flop_per_s},
    {"attention_backward_flop_per_s", &ProfileRates::attention_backward_flop_per_s},
    {"memory_bytes_per_s", &ProfileRates::memory_bytes_per_s},
    {"kernel_s", &ProfileRates::kernel_s},
    {"launch_s", &ProfileRates::launch_s},
    {"gap_s", &ProfileRates::gap_s},
    {"wake_s", &ProfileRates::wake_s},
    {"copy_bytes_per_s", &ProfileRates::copy_bytes_per_s},
    {"host_read_s", &ProfileRates::host_read_s},
    {"link_bytes_per_s", &ProfileRates::link_bytes_per_s},
    {"link_base_s", &ProfileRates::link_base_s},
    {"link_hop_s", &ProfileRates::link_hop_s},
    {"network_bytes_per_s", &ProfileRates::network_bytes_per_s},
    {"network_base_s", &ProfileRates::network_base_s},
    {"network_hop_s", &ProfileRates::network_hop_s},
    {"overlap_slowdown", &ProfileRates::overlap_slowdown},
}};
// Rates that older profiles lack: optional.
constexpr std::array<Field<ProfileRates, Figure>, 12> kLaterRates{{
    {"host_bytes_per_s", &ProfileRates::host_bytes_per_s},
    {"nvme_read_bytes_per_s", &ProfileRates::nvme_read_bytes_per_s},
    {"nvme_write_bytes_per_s", &ProfileRates::nvme_write_bytes_per_s},
    {"nvme_base_s", &ProfileRates::nvme_base_s},
    {"member_skew_s", &ProfileRates::member_skew_s},
    {"graph_launch_s", &ProfileRates::graph_launch_s},
    {"graph_op_s", &ProfileRates::graph_op_s},
    {"gemm_tf32_flop_per_s", &ProfileRates::gemm_tf32_flop_per_s},
    {"gemm_fp16_flop_per_s", &ProfileRates::gemm_fp16_flop_per_s},
    {"gemm_bf16_flop_per_s", &ProfileRates::gemm_bf16_flop_per_s},
    {"gemm_fp8_flop_per_s", &ProfileRates::gemm_fp8_flop_per_s},
    {"gemm_fp4_flop_per_s", &ProfileRates::gemm_fp4_flop_per_s},
}};
constexpr std::array<Field<OpShape, std::int64_t>, 12> kSizes{{
    {"rows", &OpShape::rows},
    {"cols", &OpShape::cols},
    {"inner", &OpShape::inner},
    {"batch", &OpShape::batch},
    {"sequence", &OpShape::sequence},
    {"vocab", &OpShape::vocab},
    {"vocab_total", &OpShape::vocab_total},
    {"elements", &OpShape::elements},
    {"decayed", &OpShape::decayed},
    {"window", &OpShape::window},
    {"capacity", &OpShape::capacity},
    {"balance_rows", &OpShape::balance_rows},
}};
constexpr std::array<Field<OpShape, std::int32_t>, 15> kHeads{{
    {"heads", &OpShape::heads},
    {"kv_heads", &OpShape::kv_heads},
    {"head_dim", &OpShape::head_dim},
    {"rotary", &OpShape::rotary},
    {"value_dim", &OpShape::value_dim},
    {"experts", &OpShape::experts},
    {"per_token", &OpShape::per_token},
    {"expert_groups", &OpShape::expert_groups},
    {"group_limit", &OpShape::group_limit},
    {"members", &OpShape::members},
    {"all_experts", &OpShape::all_experts},
    {"pieces", &OpShape::pieces},
    {"piece", &OpShape::piece},
    {"cp", &OpShape::cp},
    {"turn", &OpShape::turn},
}};
constexpr std::array<Field<ProfilePoint, bool>, 4> kFlags{{
    {"accumulate", &ProfilePoint::accumulate},
    {"trans_a", &ProfilePoint::trans_a},
    {"trans_b", &ProfilePoint::trans_b},
    {"rms", &ProfilePoint::rms},
}};

template <class Enum, int kCount>
std::array<std::string_view, kCount> Names() {
  std::array<std::string_view, kCount> names;
  for (int i = 0; i < kCount; ++i) names[static_cast<std::size_t>(i)] = Name(static_cast<Enum>(i));
  return names;
}

// "bf16,fp32": formats of the operands, up to the last that is not fp32.
std::string TextOf(const OperandFormats& formats) {
  std::string text;
  std::size_t count = formats.size();
  while (count > 0 && formats[count - 1] == NumberFormat::kFp32) --count;
  for (std::size_t i = 0; i < count; ++i) {
    text += (i > 0 ? "," : "") + std::string(Name(formats[i]));
  }
  return text;
}

// Reads at most as many formats as an op has operands; those left out are fp32.
void ReadFormats(JsonFields& fields, OperandFormats& formats) {
  const std::string text = fields.StringOr("operands", "");
  std::size_t begin = 0;
  for (std::size_t i = 0; begin < text.size(); ++i) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view name = std::string_view(text).substr(begin, end - begin);
    int format = 0;
    while (format < kNumberFormatCount && Name(static_cast<NumberFormat>(format)) != name) ++format;
    if (format == kNumberFormatCount || i >= formats.size()) {
      return fields.Refuse("operands", "\"" + text + "\" must be at most " +
                                           std::to_string(formats.size()) +
                                           " formats such as bf16,fp32, a comma between two");
    }
    formats[i] = static_cast<NumberFormat>(format);
    begin = end + 1;
  }
}

// Times of points and overheads have the same fields. p10 and p90 default to the median, which
// means no spread.
template <class Point>
void WriteTimes(const Point& point, JsonWriter& json) {
  json.Field("concurrency", point.concurrency).Field("seconds", point.seconds);
  json.Field("p10_s", point.p10_s).Field("p90_s", point.p90_s).Field("samples", point.samples);
}

template <class Point>
void ReadTimes(JsonFields& fields, Point& point) {
  point.concurrency = static_cast<int>(fields.IntegerOr("concurrency", 1, 1, kMaxProfileRanks));
  point.seconds = fields.Number("seconds", 0, kLongest);
  point.p10_s = fields.NumberOr("p10_s", point.seconds, 0, kLongest);
  point.p90_s = fields.NumberOr("p90_s", point.seconds, 0, kLongest);
  point.samples = static_cast<int>(fields.IntegerOr("samples", 1, 1, 1 << 30));
}

// Leaves out every field with its default: a profile has up to 100,000 points of few fields each.
void WritePoint(const ProfilePoint& point, JsonWriter& json) {
  json.BeginObject().Field("kind", Name(point.kind));
  for (const auto& [name, member] : kSizes) {
    if (point.shape.*member != 0) json.Field(name, point.shape.*member);
  }
  for (const auto& [name, member] : kHeads) {
    if (point.shape.*member != 0) json.Field(name, point.shape.*member);
  }
  for (const auto& [name, member] : kFlags) {
    if (point.*member) json.Field(name, true);
  }
  if (point.format != NumberFormat::kFp32) json.Field("format", Name(point.format));
  if (point.formats != OperandFormats{}) json.Field("operands", TextOf(point.formats));
  if (point.kind == OpKind::kCopy) {
    json.Field("from", Name(point.from)).Field("to", Name(point.to));
  }
  if (point.group != 1) json.Field("group", point.group);
  if (point.nodes != 1) json.Field("nodes", point.nodes);
  WriteTimes(point, json);
  json.EndObject();
}

// The getters return values in range even after an error, which Finish reports.
ProfilePoint ReadPoint(JsonFields& fields) {
  static const auto kKinds = Names<OpKind, kOpKindCount>();
  ProfilePoint point;
  point.kind = static_cast<OpKind>(fields.Choice("kind", kKinds));
  for (const auto& [name, member] : kSizes) {
    point.shape.*member = fields.IntegerOr(name, 0, 0, kMaxProduct);
  }
  for (const auto& [name, member] : kHeads) {
    point.shape.*member = static_cast<std::int32_t>(fields.IntegerOr(name, 0, 0, kMaxProfileRanks));
  }
  for (const auto& [name, member] : kFlags) point.*member = fields.BoolOr(name, false);
  static const auto kFormats = Names<NumberFormat, kNumberFormatCount>();
  point.format = static_cast<NumberFormat>(fields.ChoiceOr("format", 0, kFormats));
  ReadFormats(fields, point.formats);
  if (point.kind == OpKind::kCopy) {
    static const auto kSpaces = Names<Space, kSpaceCount>();
    point.from = static_cast<Space>(fields.Choice("from", kSpaces));
    point.to = static_cast<Space>(fields.Choice("to", kSpaces));
  }
  point.group = static_cast<int>(fields.IntegerOr("group", 1, 1, kMaxProfileRanks));
  point.nodes = static_cast<int>(fields.IntegerOr("nodes", 1, 1, kMaxProfileRanks));
  ReadTimes(fields, point);
  return point;
}

// Every rate has a value and a provenance, so that forecasts can state what they rest on.
Result<void> ReadRates(JsonFields fields, ProfileRates& rates) {
  static const auto kProvenances = Names<Provenance, kProvenanceCount>();
  const auto read = [](JsonFields figure, Figure& to) {
    to.value = figure.Number("value", 0, kFastest);
    to.provenance = static_cast<Provenance>(figure.Choice("provenance", kProvenances));
    return figure.Finish();
  };
  for (const auto& [name, member] : kRates) FT_TRY(read(fields.Object(name), rates.*member));
  for (const auto& [name, member] : kLaterRates) {
    if (auto figure = fields.ObjectOr(name)) FT_TRY(read(std::move(*figure), rates.*member));
  }
  // Older profiles give element_bytes; ops now carry their own formats, so it is ignored.
  Figure unused;
  if (auto figure = fields.ObjectOr("element_bytes")) FT_TRY(read(std::move(*figure), unused));
  return fields.Finish();
}

constexpr std::array<Field<KernelModel, double>, 4> kPeaks{{
    {"half_flop_per_s", &KernelModel::half_flop_per_s},
    {"fp8_flop_per_s", &KernelModel::fp8_flop_per_s},
    {"fp4_flop_per_s", &KernelModel::fp4_flop_per_s},
    {"memory_bytes_per_s", &KernelModel::memory_bytes_per_s},
}};

// A profile stores the constants of its kernel model. Later changes of the built-in architectures
// then do not change old forecasts.
Result<void> ReadKernels(JsonFields fields, std::optional<KernelModel>& to) {
  KernelModel& kernels = to.emplace();
  kernels.architecture.name = fields.String("architecture", 64);
  kernels.multiprocessors =
      static_cast<int>(fields.Integer("multiprocessors", 1, kMaxProfileRanks));
  for (const auto& [name, member] : kPeaks) kernels.*member = fields.Number(name, 1e-3, kFastest);
  static const auto kProvenances = Names<Provenance, kProvenanceCount>();
  for (const ArchitectureField& field : ArchitectureFields()) {
    JsonFields figure = fields.Object(field.name);
    Figure& out = kernels.architecture.*field.figure;
    out.value = figure.Number("value", field.low, field.high);
    out.provenance = static_cast<Provenance>(figure.Choice("provenance", kProvenances));
    FT_TRY(figure.Finish());
  }
  return fields.Finish();
}

void WriteKernels(const KernelModel& kernels, JsonWriter& json) {
  json.Name("kernels").BeginObject().Field("architecture", kernels.architecture.name);
  json.Field("multiprocessors", kernels.multiprocessors);
  for (const auto& [name, member] : kPeaks) json.Field(name, kernels.*member);
  for (const ArchitectureField& field : ArchitectureFields()) {
    const Figure& figure = kernels.architecture.*field.figure;
    json.Name(field.name).BeginObject().Field("value", figure.value);
    json.Field("provenance", Name(figure.provenance)).EndObject();
  }
  json.EndObject();
}

Result<void> ReadReference(JsonFields fields, ReferenceGemm& reference) {
  reference.rows = fields.Integer("rows", 1, kMaxProduct);
  reference.cols = fields.Integer("cols", 1, kMaxProduct);
  reference.inner = fields.Integer("inner", 1, kMaxProduct);
  reference.seconds = fields.Number("seconds", 0, kLongest);
  return fields.Finish();
}

constexpr std::size_t kMaxLearnedConstants = 64;

// Constants have names, so that a profile of another version is refused and not misread.
Result<void> ReadLearned(JsonFields fields, std::optional<LearnedState>& to) {
  LearnedState& state = to.emplace();
  state.runs = static_cast<int>(fields.Integer("runs", 1, 1 << 30));
  state.preset = fields.StringOr("preset", "", 100);
  state.plan_error = fields.Number("plan_error", 0, 10);
  for (JsonFields& item : fields.ObjectsOr("constants")) {
    state.constants.push_back(item.String("name", 64));
    state.moves.push_back(item.Number("move", -100, 100));
    const std::vector<double> row = item.Numbers("covariance", -100, 100);
    state.covariance.insert(state.covariance.end(), row.begin(), row.end());
    FT_TRY(item.Finish());
  }
  const std::size_t count = state.constants.size();
  if (count == 0 || count > kMaxLearnedConstants || state.covariance.size() != count * count) {
    fields.Refuse("constants", "each must have one number of its covariance with every constant");
  }
  return fields.Finish();
}

void WriteLearned(const LearnedState& state, JsonWriter& json) {
  json.Name("learned").BeginObject().Field("runs", state.runs).Field("preset", state.preset);
  json.Field("plan_error", state.plan_error).Name("constants").BeginArray();
  const std::size_t count = state.constants.size();
  for (std::size_t i = 0; i < count; ++i) {
    json.BeginObject().Field("name", state.constants[i]).Field("move", state.moves[i]);
    json.Name("covariance").BeginArray();
    for (std::size_t j = 0; j < count; ++j) json.Number(state.covariance[i * count + j]);
    json.EndArray().EndObject();
  }
  json.EndArray().EndObject();
}

// Each item is finished before the next, so an error names the item.
Result<void> ReadTables(JsonFields& fields, DeviceProfile& profile) {
  static const auto kOverheads = Names<OverheadKind, kOverheadKindCount>();
  for (JsonFields& item : fields.ObjectsOr("overheads")) {
    OverheadPoint& point = profile.overheads.emplace_back();
    point.kind = static_cast<OverheadKind>(item.Choice("kind", kOverheads));
    ReadTimes(item, point);
    FT_TRY(item.Finish());
  }
  for (JsonFields& item : fields.ObjectsOr("points")) {
    profile.points.push_back(ReadPoint(item));
    FT_TRY(item.Finish());
  }
  return {};
}

}  // namespace

// Optional parts are written only if present. Reading the text gives the same profile.
std::string ProfileToJson(const DeviceProfile& profile) {
  JsonWriter json(1);
  json.BeginObject().Field("schema", kSchema).Field("device", profile.device);
  json.Field("machine", profile.machine).Field("date", profile.date);
  json.Field("assumptions", profile.assumptions);
  if (profile.reference.rows > 0) {
    json.Name("reference").BeginObject().Field("rows", profile.reference.rows);
    json.Field("cols", profile.reference.cols).Field("inner", profile.reference.inner);
    json.Field("seconds", profile.reference.seconds).EndObject();
  }
  json.Field("error", profile.error);
  json.Name("rates").BeginObject();
  const auto write = [&](const auto& fields) {
    for (const auto& [name, member] : fields) {
      const Figure& figure = profile.rates.*member;
      json.Name(name).BeginObject().Field("value", figure.value);
      json.Field("provenance", Name(figure.provenance)).EndObject();
    }
  };
  write(kRates);
  write(kLaterRates);
  json.EndObject();
  if (profile.kernels.has_value()) WriteKernels(*profile.kernels, json);
  if (profile.system != SystemOptions{}) {
    json.Name("system").BeginObject();
    WriteSystemOptions(profile.system, json);
    json.EndObject();
  }
  if (!profile.gemm_algorithms.of.empty()) {
    json.Name("gemm_algorithms").BeginObject();
    WriteGemmAlgorithms(profile.gemm_algorithms, json);
    json.EndObject();
  }
  if (!profile.attention_times.of.empty()) {
    json.Name("attention_times").BeginObject();
    WriteAttentionTimes(profile.attention_times, json);
    json.EndObject();
  }
  if (profile.learned.has_value()) WriteLearned(*profile.learned, json);
  json.Name("overheads").BeginArray();
  for (const OverheadPoint& point : profile.overheads) {
    json.BeginObject().Field("kind", Name(point.kind));
    WriteTimes(point, json);
    json.EndObject();
  }
  json.EndArray().Name("points").BeginArray();
  for (const ProfilePoint& point : profile.points) WritePoint(point, json);
  json.EndArray().EndObject();
  return json.Take() + "\n";
}

// The schema is checked first, because fields of another schema may mean something else.
Result<DeviceProfile> ProfileFromJson(std::string_view text, std::string_view file) {
  // 100,000 points of up to 16 values.
  FT_ASSIGN(const JsonValue value,
            ParseJson(text, file, {.max_bytes = std::int64_t{64} << 20, .max_values = 1 << 21}));
  JsonFields fields(value, file);
  const std::int64_t schema = fields.Integer("schema", 0, kMaxSamples);
  if (fields.ok() && schema != kSchema) {
    return Refuse("{}: schema {}: this program reads {}; calibrate again", file, schema, kSchema);
  }
  DeviceProfile profile;
  profile.device = fields.String("device", 200);
  profile.machine = fields.StringOr("machine", "", 1000);
  profile.date = fields.StringOr("date", "", 100);
  profile.assumptions = fields.StringOr("assumptions", "", 10'000);
  profile.error = fields.NumberOr("error", kUnfittedError, 0, 10);
  if (auto reference = fields.ObjectOr("reference")) {
    FT_TRY(ReadReference(std::move(*reference), profile.reference));
  }
  FT_TRY(ReadRates(fields.Object("rates"), profile.rates));
  if (auto kernels = fields.ObjectOr("kernels")) {
    FT_TRY(ReadKernels(std::move(*kernels), profile.kernels));
  }
  if (auto system = fields.ObjectOr("system")) {
    (void)ReadSystemOptions(*system, profile.system);
    FT_TRY(system->Finish());
  }
  if (auto algorithms = fields.ObjectOr("gemm_algorithms")) {
    FT_TRY(ReadGemmAlgorithms(std::move(*algorithms), profile.gemm_algorithms));
  }
  if (auto times = fields.ObjectOr("attention_times")) {
    FT_TRY(ReadAttentionTimes(std::move(*times), profile.attention_times));
  }
  if (auto learned = fields.ObjectOr("learned")) {
    FT_TRY(ReadLearned(std::move(*learned), profile.learned));
  }
  FT_TRY(ReadTables(fields, profile));
  FT_TRY(fields.Finish());
  if (const auto valid = ValidateProfile(profile); !valid) {
    return Refuse("{}: {}", file, valid.error().message);
  }
  return profile;
}

}  // namespace foretrain
