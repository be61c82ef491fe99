// How long attention over whole sequences takes by a device's own kernels and by its library's:
// what `calibrate` measured, and runs choose by, so that their bits depend on a profile and not on
// timing. Leaves out how it is timed and used (runtime/attention_kernels.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "sim/program/op.h"

namespace foretrain {

// Of one causal call over `batch` sequences of `sequence` rows.
struct AttentionTime {
  std::int64_t batch = 0;
  std::int64_t sequence = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  NumberFormat format = NumberFormat::kBf16;
  bool backward = false;
  double own_seconds = 0;      // median
  double library_seconds = 0;  // likewise

  bool operator==(const AttentionTime&) const = default;
};

struct AttentionTimes {
  std::string library;  // and its version, "cudnn-91900"; empty: none were measured
  std::vector<AttentionTime> of;

  bool operator==(const AttentionTimes&) const = default;
};

// Whether runs take the library's kernels: where they are 2 % faster, so that noise moves nothing.
bool IsLibraryFaster(const AttentionTime& time);

// As the object that is begun: "library", "of".
void WriteAttentionTimes(const AttentionTimes& times, JsonWriter& json);

// Errors: kInvalidArgument, a field that is missing, unknown or out of range.
Result<void> ReadAttentionTimes(JsonFields fields, AttentionTimes& times);

}  // namespace foretrain
