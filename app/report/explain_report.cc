#include "app/report/explain_report.h"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

#include "base/json/json.h"
#include "base/units.h"

namespace foretrain {
namespace {

constexpr std::array<std::pair<std::string_view, std::int64_t OpShape::*>, 7> kSizes = {{
    {"rows", &OpShape::rows},
    {"cols", &OpShape::cols},
    {"inner", &OpShape::inner},
    {"batch", &OpShape::batch},
    {"sequence", &OpShape::sequence},
    {"vocab", &OpShape::vocab},
    {"elements", &OpShape::elements},
}};
constexpr std::array<std::pair<std::string_view, std::int32_t OpShape::*>, 5> kCounts = {{
    {"heads", &OpShape::heads},
    {"kv_heads", &OpShape::kv_heads},
    {"head_dim", &OpShape::head_dim},
    {"experts", &OpShape::experts},
    {"per_token", &OpShape::per_token},
}};

// Calls use(name, size) for each size that the op has.
template <class Use>
void ForSizes(const OpShape& shape, Use&& use) {
  for (const auto& [name, size] : kSizes) {
    if (shape.*size != 0) use(name, shape.*size);
  }
  for (const auto& [name, size] : kCounts) {
    if (shape.*size != 0) use(name, std::int64_t{shape.*size});
  }
}

// Compute format of products and attention; all other ops work in the formats of their operands.
std::string FormatText(const Op& op) {
  const bool computes = IsProduct(op.kind) || IsAttention(op.kind);
  return std::string(Name(computes ? op.format : op.formats[0]));
}

std::string ValueText(const CostTerm& term) {
  if (!term.text.empty()) return term.text;
  if (term.unit == "s") return FormatSeconds(term.value);
  if (term.unit.empty()) return fmt::format("{:.4g}", term.value);
  return FormatSi(term.value, term.unit);
}

// One line a term; facts stand in brackets, because they are not part of the figure.
std::string TermsText(const std::vector<CostTerm>& terms, std::size_t indent) {
  std::string text;
  const std::string margin(indent, ' ');
  for (const CostTerm& term : terms) {
    switch (term.role) {
      case TermRole::kSeconds:
        text += fmt::format("{}+ {:<12} {}\n", margin, FormatSeconds(term.value), term.name);
        text += TermsText(term.of, indent + 4);
        break;
      case TermRole::kFactor:
        text += fmt::format("{}x {:<12.4g} {}\n", margin, term.value, term.name);
        break;
      case TermRole::kFact:
        text += fmt::format("{}  ({}: {})\n", margin, term.name, ValueText(term));
        break;
    }
  }
  return text;
}

std::string OpText(const ExplainedOp& op) {
  std::string text = fmt::format("{}: {} in {}, {} times in a step of rank {}\n  {}", op.op.name,
                                 Name(op.op.kind), op.block, op.times, op.rank, FormatText(op.op));
  ForSizes(op.op.shape, [&](std::string_view name, std::int64_t size) {
    text += fmt::format(", {} {}", name, size);
  });
  text += fmt::format("; {}, {}\n", FormatSi(op.flop, "FLOP"), FormatSi(op.bytes, "B"));
  if (IsCommunication(op.op.kind)) {
    text += fmt::format("  {} members on {} node{}, at least {} on each\n", op.place.members,
                        op.place.nodes, op.place.nodes == 1 ? "" : "s", op.place.per_node);
  }
  text += TermsText(op.terms.list(), 4);
  return text + fmt::format("    = {:<12} {}, error {:.0f} %; the host issues it in {}\n",
                            FormatSeconds(op.seconds), Name(op.provenance), 100 * op.error,
                            FormatSeconds(op.launch_s));
}

void WriteTerms(JsonWriter& json, const std::vector<CostTerm>& terms) {
  constexpr std::array<std::string_view, 3> kRoles = {"seconds", "factor", "fact"};
  json.Name("terms").BeginArray();
  for (const CostTerm& term : terms) {
    json.BeginObject().Field("role", kRoles[static_cast<std::size_t>(term.role)]);
    json.Field("name", term.name);
    term.text.empty() ? json.Field("value", term.value) : json.Field("value", term.text);
    json.Field("unit", term.unit);
    if (!term.of.empty()) WriteTerms(json, term.of);
    json.EndObject();
  }
  json.EndArray();
}

}  // namespace

std::string ExplainText(const std::vector<ExplainedOp>& ops, const std::string& origin) {
  std::string text = "rates: " + origin + "\n";
  for (const ExplainedOp& op : ops) text += "\n" + OpText(op);
  return text;
}

std::string ExplainJson(const std::vector<ExplainedOp>& ops, const std::string& origin) {
  JsonWriter json;
  json.BeginObject().Field("schema", 1).Field("rates", origin).Name("ops").BeginArray();
  for (const ExplainedOp& op : ops) {
    json.BeginObject().Field("name", op.op.name).Field("kind", Name(op.op.kind));
    json.Field("block", op.block).Field("pass", Name(op.pass)).Field("rank", op.rank);
    json.Field("times", op.times).Field("format", FormatText(op.op)).Name("shape").BeginObject();
    ForSizes(op.op.shape,
             [&](std::string_view name, std::int64_t size) { json.Field(name, size); });
    json.EndObject().Field("flop", op.flop).Field("bytes", op.bytes);
    if (IsCommunication(op.op.kind)) {
      json.Name("group").BeginObject().Field("members", op.place.members);
      json.Field("nodes", op.place.nodes).Field("per_node", op.place.per_node).EndObject();
    }
    json.Field("seconds", op.seconds).Field("host_s", op.launch_s);
    json.Field("provenance", Name(op.provenance)).Field("relative_error", op.error);
    WriteTerms(json, op.terms.list());
    json.EndObject();
  }
  return json.EndArray().EndObject().Take();
}

}  // namespace foretrain
