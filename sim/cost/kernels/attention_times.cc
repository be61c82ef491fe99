#include "sim/cost/kernels/attention_times.h"

#include <array>
#include <string_view>

namespace foretrain {
namespace {

constexpr double kGain = 0.98;    // the library must take less than this share of our kernels' time
constexpr double kLongest = 1e6;  // in seconds
constexpr double kShortest = 1e-9;  // in seconds
constexpr std::int64_t kMaxRows = std::int64_t{1} << 40;
constexpr std::int64_t kMaxHeads = 1 << 20;

constexpr std::array<std::string_view, 2> kFormats{"bf16", "fp16"};
constexpr std::array<std::string_view, 2> kPasses{"forward", "backward"};

}  // namespace

bool IsLibraryFaster(const AttentionTime& time) {
  return time.library_seconds < kGain * time.own_seconds;
}

void WriteAttentionTimes(const AttentionTimes& times, JsonWriter& json) {
  json.Field("library", times.library).Name("of").BeginArray();
  for (const AttentionTime& time : times.of) {
    json.BeginObject().Field("pass", kPasses[time.backward ? 1 : 0]);
    json.Field("batch", time.batch).Field("sequence", time.sequence).Field("heads", time.heads);
    json.Field("kv_heads", time.kv_heads).Field("head_dim", time.head_dim);
    json.Field("format", kFormats[time.format == NumberFormat::kFp16 ? 1 : 0]);
    json.Field("own_seconds", time.own_seconds);
    json.Field("library_seconds", time.library_seconds).EndObject();
  }
  json.EndArray();
}

Result<void> ReadAttentionTimes(JsonFields fields, AttentionTimes& times) {
  times.library = fields.String("library", 64);
  for (JsonFields& item : fields.ObjectsOr("of")) {
    AttentionTime& time = times.of.emplace_back();
    time.backward = item.Choice("pass", kPasses) == 1;
    time.batch = item.Integer("batch", 1, kMaxRows);
    time.sequence = item.Integer("sequence", 1, kMaxRows);
    time.heads = item.Integer("heads", 1, kMaxHeads);
    time.kv_heads = item.Integer("kv_heads", 1, kMaxHeads);
    time.head_dim = item.Integer("head_dim", 1, kMaxHeads);
    time.format = item.Choice("format", kFormats) == 1 ? NumberFormat::kFp16 : NumberFormat::kBf16;
    time.own_seconds = item.Number("own_seconds", kShortest, kLongest);
    time.library_seconds = item.Number("library_seconds", kShortest, kLongest);
    FT_TRY(item.Finish());
  }
  return fields.Finish();
}

}  // namespace foretrain
