#include "app/report/memory/held_memory_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/json/json.h"
#include "base/table.h"
#include "base/units.h"

namespace foretrain {
namespace {

constexpr std::size_t kShown = 10;
constexpr int kFrameWidth = 56;

std::int64_t BytesOf(const HeldOfRank& rank) {
  return std::accumulate(rank.held.begin(), rank.held.end(), std::int64_t{0},
                         [](std::int64_t sum, const HeldMemory& held) { return sum + held.bytes; });
}

}  // namespace

std::vector<HeldOfRank> HeldMemoryOf(const StoreReader& reader, RunId run) {
  const auto text = reader.Attachment(run, kHeldAttachment);
  if (!text.has_value()) return {};
  return HeldFromJson(*text, "held_memory").value_or(std::vector<HeldOfRank>());
}

std::string HeldMemoryText(const std::vector<HeldOfRank>& ranks) {
  const auto fullest = std::max_element(
      ranks.begin(), ranks.end(),
      [](const HeldOfRank& a, const HeldOfRank& b) { return BytesOf(a) < BytesOf(b); });
  if (fullest == ranks.end() || fullest->held.empty()) return "";
  Table table({"stack", "category", ">allocations", ">held"});
  table.LimitWidth("stack", kFrameWidth);
  HeldMemory others;
  for (std::size_t i = 0; i < fullest->held.size(); ++i) {
    const HeldMemory& held = fullest->held[i];
    if (i >= kShown) {
      others.bytes += held.bytes;
      others.allocations += held.allocations;
      continue;
    }
    table.AddRow({held.frame.empty() ? "no stack" : held.frame, std::string(Name(held.category)),
                  std::to_string(held.allocations), FormatBytes(held.bytes)});
  }
  if (others.allocations > 0) {
    table.AddRow({fmt::format("{} others", fullest->held.size() - kShown), "",
                  std::to_string(others.allocations), FormatBytes(others.bytes)});
  }
  return fmt::format("  at the peak of rank {}, by the stack that allocated\n", fullest->rank) +
         table.Text(2);
}

void WriteHeldMemory(JsonWriter& json, const std::vector<HeldOfRank>& ranks) {
  if (ranks.empty()) return;
  json.Name("held_memory").BeginArray();
  for (const HeldOfRank& rank : ranks) {
    for (const HeldMemory& held : rank.held) {
      json.BeginObject().Field("rank", rank.rank).Field("frame", held.frame);
      json.Field("category", Name(held.category)).Field("bytes", held.bytes);
      json.Field("allocations", held.allocations).EndObject();
    }
  }
  json.EndArray();
}

}  // namespace foretrain
