#include "traces/held_memory.h"

#include <array>

#include "base/json/json.h"

namespace foretrain {
namespace {

constexpr JsonLimits kLimits{.max_bytes = std::int64_t{256} << 20, .max_values = 1 << 24};
constexpr std::int64_t kMaxRank = (1 << 15) - 1;
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 56;

}  // namespace

std::string HeldToJson(const std::vector<HeldOfRank>& ranks) {
  JsonWriter json;
  json.BeginObject().Field("schema", 1).Name("ranks").BeginArray();
  for (const HeldOfRank& rank : ranks) {
    json.BeginObject().Field("rank", rank.rank).Name("held").BeginArray();
    for (const HeldMemory& held : rank.held) {
      json.BeginObject().Field("frame", held.frame).Field("category", Name(held.category));
      json.Field("bytes", held.bytes).Field("allocations", held.allocations).EndObject();
    }
    json.EndArray().EndObject();
  }
  return json.EndArray().EndObject().Take();
}

Result<std::vector<HeldOfRank>> HeldFromJson(std::string_view text, std::string_view source) {
  FT_ASSIGN(const JsonValue value, ParseJson(text, source, kLimits));
  std::array<std::string_view, kCategoryCount> names;
  for (int i = 0; i < kCategoryCount; ++i) {
    names[static_cast<std::size_t>(i)] = Name(static_cast<Category>(i));
  }
  JsonFields fields(value, source);
  std::vector<HeldOfRank> ranks;
  for (JsonFields& rank : fields.Objects("ranks")) {
    HeldOfRank of{.rank = static_cast<int>(rank.Integer("rank", 0, kMaxRank))};
    for (JsonFields& held : rank.Objects("held")) {
      of.held.push_back({.frame = held.String("frame"),
                         .category = static_cast<Category>(held.Choice("category", names)),
                         .bytes = held.Integer("bytes", 0, kMaxBytes),
                         .allocations = held.Integer("allocations", 0, kMaxBytes)});
    }
    ranks.push_back(std::move(of));
  }
  FT_TRY(fields.Finish(/*ignore_unknown=*/true));
  return ranks;
}

}  // namespace foretrain
