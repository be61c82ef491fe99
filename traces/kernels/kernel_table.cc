#include "traces/kernels/kernel_table.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <tuple>
#include <utility>

#include "base/json/json.h"
#include "base/text.h"
#include "base/units.h"
#include "traces/timeline.h"

namespace foretrain {
namespace {

// Bounds of what is read: a file may come from elsewhere.
constexpr std::int64_t kMaxCalls = std::int64_t{1} << 56;
constexpr std::int64_t kMaxInt = INT32_MAX;
constexpr double kMaxWork = 1e30;
constexpr JsonLimits kLimits{.max_bytes = 256 * kMiB, .max_depth = 8, .max_values = 8 << 20};

// Rows of one name, longest first, with the name that has the longest total first. Ties keep the
// order of names and launches, so that the text does not depend on the order of calls.
struct Named {
  std::string_view name;
  std::int64_t calls = 0, total_ns = 0;
  std::vector<std::uint32_t> rows;
};

std::vector<Named> ByName(const KernelTable& table) {
  std::map<std::string_view, Named> names;
  for (std::uint32_t i = 0; i < table.rows.size(); ++i) {
    const KernelRow& row = table.rows[i];
    Named& named = names[row.name];
    named.name = row.name;
    named.calls += row.calls;
    named.total_ns += row.total_ns;
    named.rows.push_back(i);
  }
  std::vector<Named> sorted;
  for (auto& [name, named] : names) {
    std::sort(named.rows.begin(), named.rows.end(), [&](std::uint32_t a, std::uint32_t b) {
      return std::tuple(-table.rows[a].total_ns, table.rows[a].launch) <
             std::tuple(-table.rows[b].total_ns, table.rows[b].launch);
    });
    sorted.push_back(std::move(named));
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Named& a, const Named& b) { return a.total_ns > b.total_ns; });
  return sorted;
}

void Write(JsonWriter& json, std::string_view name, const std::array<std::int32_t, 3>& numbers) {
  json.Name(name).BeginArray();
  for (const std::int32_t number : numbers) json.Integer(number);
  json.EndArray();
}

void Write(JsonWriter& json, const KernelRow& row) {
  json.BeginObject();
  WriteLaunch(json, row.launch);
  json.Field("calls", row.calls).Field("total_s", SecondsFromNs(row.total_ns));
  if (row.work.IsKnown()) {
    json.Name("work").BeginObject().Field("flop", row.work.flops).Field("bytes", row.work.bytes);
    json.Field("time_s", SecondsFromNs(row.work.time_ns));
    json.Field("format", row.work.format).EndObject();
  }
  json.EndObject();
}

std::array<std::int32_t, 3> ReadExtent(JsonFields& fields, std::string_view name) {
  std::array<std::int32_t, 3> extent{};
  const std::vector<std::int64_t> numbers = fields.IntegersOr(name, 0, kMaxInt);
  for (std::size_t i = 0; i < std::min(numbers.size(), extent.size()); ++i) {
    extent[i] = static_cast<std::int32_t>(numbers[i]);
  }
  return extent;
}

// Seconds were written with all digits of a double, so whole nanoseconds come back exactly up to 52
// days.
KernelRow ReadRow(JsonFields& fields, const std::string& name) {
  const auto number = [&](std::string_view field, std::int64_t max) {
    return static_cast<std::int32_t>(fields.IntegerOr(field, 0, 0, max));
  };
  KernelRow row{.name = name};
  row.launch.grid = ReadExtent(fields, "grid");
  row.launch.block = ReadExtent(fields, "block");
  row.launch.registers = number("registers", 1 << 16);
  row.launch.static_shared_bytes = number("static_shared_bytes", kGiB);
  row.launch.dynamic_shared_bytes = number("dynamic_shared_bytes", kGiB);
  row.calls = fields.Integer("calls", 0, kMaxCalls);
  row.total_ns = NsFromSeconds(fields.Number("total_s", 0, 1e9));
  if (auto work = fields.ObjectOr("work")) {
    row.work.flops = work->Number("flop", 0, kMaxWork);
    row.work.bytes = work->Number("bytes", 0, kMaxWork);
    row.work.time_ns = NsFromSeconds(work->Number("time_s", 0, 1e9));
    row.work.format = work->String("format", 16);
  }
  return row;
}

void ReadKernel(JsonFields& fields, KernelTable& table) {
  const std::string name = fields.String("name", 1 << 20);
  std::vector<JsonFields> launches = fields.ObjectsOr("launches");
  if (launches.empty()) table.rows.push_back(ReadRow(fields, name));
  for (JsonFields& launch : launches) table.rows.push_back(ReadRow(launch, name));
}

void ReadOps(JsonFields& fields, KernelTable& table) {
  const auto last = static_cast<std::int64_t>(table.rows.size()) - 1;
  for (const std::string& text : fields.names()) {
    const auto op = ParseInt("op", text, 0, INT64_MAX);
    if (!op.has_value()) return fields.Refuse(text, op.error().message);
    std::vector<std::uint32_t>& rows = table.ops[*op];
    for (const std::int64_t row : fields.Integers(text, 0, std::max<std::int64_t>(last, 0))) {
      rows.push_back(static_cast<std::uint32_t>(row));
    }
    if (last < 0) return fields.Refuse(text, "there are no kernels");
  }
}

constexpr std::string_view kAnonymous = "(anonymous namespace)";

// Kernels of CUTLASS and PyTorch whose template argument says what they do.
constexpr std::array<std::string_view, 8> kWrappers = {"device_kernel",
                                                       "Kernel",
                                                       "Kernel2",
                                                       "elementwise_kernel",
                                                       "vectorized_elementwise_kernel",
                                                       "unrolled_elementwise_kernel",
                                                       "reduce_kernel",
                                                       "multi_tensor_apply_kernel"};

struct NameParts {
  std::string_view base{};       // without namespaces
  std::string_view arguments{};  // of its template
};

// The base begins behind the last "::" or space outside of template arguments.
NameParts PartsOf(std::string_view name) {
  name = WithoutParameters(name);
  std::size_t depth = 0, begin = 0, end = name.size();
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (depth == 0 && name.substr(i).starts_with(kAnonymous)) {
      i += kAnonymous.size() - 1;
    } else if (name[i] == '<') {
      if (depth++ == 0) end = i;
    } else if (name[i] == '>' && depth > 0) {
      --depth;
    } else if (depth == 0 && (name[i] == ':' || name[i] == ' ')) {
      begin = i + 1;
      end = name.size();
    }
  }
  if (begin >= end) return {};
  NameParts parts{name.substr(begin, end - begin)};
  if (end < name.size() && name.back() == '>') {
    parts.arguments = name.substr(end + 1, name.size() - end - 2);
  }
  return parts;
}

// The base of the first argument that names a type; empty if there is none.
std::string_view InnerName(std::string_view arguments) {
  constexpr std::array<std::string_view, 5> kPlain = {"true", "false", "int", "float", "char"};
  std::size_t depth = 0, begin = 0;
  for (std::size_t i = 0; i <= arguments.size(); ++i) {
    const char c = i < arguments.size() ? arguments[i] : ',';
    if (c == '<' || c == '(') ++depth;
    if ((c == '>' || c == ')') && depth > 0) --depth;
    if (c != ',' || (depth > 0 && i < arguments.size())) continue;
    const std::string_view base = PartsOf(Trim(arguments.substr(begin, i - begin))).base;
    begin = i + 1;
    const bool is_name =
        !base.empty() && (std::isalpha(static_cast<unsigned char>(base[0])) != 0 || base[0] == '_');
    if (is_name && std::find(kPlain.begin(), kPlain.end(), base) == kPlain.end()) return base;
  }
  return {};
}

}  // namespace

// Rows that differ only in their place are the same row of the sum.
void KernelTable::Add(const KernelTable& more) {
  if (capability == 0) capability = more.capability;
  if (gpu.empty()) gpu = more.gpu;
  std::map<std::pair<std::string_view, KernelLaunch>, std::uint32_t> numbers;
  rows.reserve(rows.size() + more.rows.size());  // keeps the names that the map views
  for (std::uint32_t i = 0; i < rows.size(); ++i) numbers[{rows[i].name, rows[i].launch}] = i;
  std::vector<std::uint32_t> place;
  for (const KernelRow& row : more.rows) {
    const auto [at, is_new] =
        numbers.try_emplace({row.name, row.launch}, static_cast<std::uint32_t>(rows.size()));
    if (is_new) rows.push_back({row.name, row.launch});
    rows[at->second].calls += row.calls;
    rows[at->second].total_ns += row.total_ns;
    rows[at->second].work.Add(row.work);
    place.push_back(at->second);
  }
  for (const auto& [op, its] : more.ops) {
    std::vector<std::uint32_t>& all = ops[op];
    for (const std::uint32_t row : its) all.push_back(place[row]);
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
  }
}

std::vector<const KernelRow*> KernelTable::Of(OpId op) const {
  std::vector<const KernelRow*> found;
  const auto at = ops.find(NameKey(op));
  if (at == ops.end()) return found;
  for (const std::uint32_t row : at->second) found.push_back(&rows[row]);
  return found;
}

void KernelTable::Own(OpId op, std::uint32_t row) {
  if (op == kNoOp) return;
  std::vector<std::uint32_t>& its = ops[NameKey(op)];
  const auto at = std::lower_bound(its.begin(), its.end(), row);
  if (at == its.end() || *at != row) its.insert(at, row);
}

void WriteLaunch(JsonWriter& json, const KernelLaunch& launch) {
  if (!launch.IsKnown()) return;
  Write(json, "grid", launch.grid);
  Write(json, "block", launch.block);
  json.Field("registers", launch.registers)
      .Field("static_shared_bytes", launch.static_shared_bytes)
      .Field("dynamic_shared_bytes", launch.dynamic_shared_bytes);
}

std::string KernelsToJson(const KernelTable& table) {
  JsonWriter json;
  json.BeginObject().Field("schema", 1);
  if (table.capability > 0) {
    json.Field("compute_capability",
               std::to_string(table.capability / 10) + "." + std::to_string(table.capability % 10));
  }
  if (!table.gpu.empty()) json.Field("gpu", table.gpu);
  std::vector<std::uint32_t> place(table.rows.size());
  std::uint32_t next = 0;
  json.Name("kernels").BeginArray();
  for (const Named& named : ByName(table)) {
    json.BeginObject().Field("name", named.name).Field("calls", named.calls);
    json.Field("total_s", SecondsFromNs(named.total_ns)).Name("launches").BeginArray();
    for (const std::uint32_t row : named.rows) {
      place[row] = next++;
      Write(json, table.rows[row]);
    }
    json.EndArray().EndObject();
  }
  json.EndArray().Name("ops").BeginObject();
  for (const auto& [op, rows] : table.ops) {
    std::vector<std::uint32_t> places;
    for (const std::uint32_t row : rows) places.push_back(place[row]);
    std::sort(places.begin(), places.end());
    json.Name(std::to_string(op)).BeginArray();
    for (const std::uint32_t one : places) json.Integer(one);
    json.EndArray();
  }
  return json.EndObject().EndObject().Take();
}

Result<KernelTable> KernelsFromJson(std::string_view text, std::string_view source) {
  FT_ASSIGN(const JsonValue value, ParseJson(text, source, kLimits));
  JsonFields fields(value, std::string(source));
  KernelTable table;
  const std::string capability = fields.StringOr("compute_capability", "0.0");
  const std::size_t point = std::min(capability.find('.'), capability.size() - 1);
  const auto major = ParseInt("compute_capability", capability.substr(0, point), 0, 99);
  const auto minor = ParseInt("compute_capability", capability.substr(point + 1), 0, 9);
  if (major.has_value() && minor.has_value()) {
    table.capability = static_cast<int>(10 * *major + *minor);
  }
  table.gpu = fields.StringOr("gpu", "");
  for (JsonFields& kernel : fields.Objects("kernels")) ReadKernel(kernel, table);
  if (auto ops = fields.ObjectOr("ops")) ReadOps(*ops, table);
  FT_TRY(fields.Finish(/*ignore_unknown=*/true));
  return table;
}

// The parameters begin at the first parenthesis outside of template arguments. "(anonymous
// namespace)" is no list of parameters.
std::string_view WithoutParameters(std::string_view name) {
  std::size_t depth = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name.substr(i).starts_with(kAnonymous)) {
      i += kAnonymous.size() - 1;
    } else if (name[i] == '<') {
      ++depth;
    } else if (name[i] == '>' && depth > 0) {
      --depth;
    } else if (name[i] == '(' && depth == 0) {
      return name.substr(0, i);
    }
  }
  return name;
}

std::string ShortKernelName(std::string_view name) {
  const NameParts parts = PartsOf(name);
  if (parts.base.empty()) return std::string(name);
  const bool wraps = std::find(kWrappers.begin(), kWrappers.end(), parts.base) != kWrappers.end();
  const std::string_view inner = wraps ? InnerName(parts.arguments) : std::string_view();
  return std::string(parts.base) + (inner.empty() ? "" : "<" + std::string(inner) + ">");
}

}  // namespace foretrain
