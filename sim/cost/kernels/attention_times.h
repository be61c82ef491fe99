// Measured times of attention over whole sequences, by a device's own kernels and by its library.
// `calibrate` measures them and runs choose by them, so that a run's bits depend on a profile and
// not on timing. runtime/device/attention_kernels.h measures and applies them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "base/result.h"
#include "sim/program/ir/op.h"

namespace foretrain {

// Times of one causal call over `batch` sequences of `sequence` rows.
struct AttentionTime {
  std::int64_t batch = 0;
  std::int64_t sequence = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  NumberFormat format = NumberFormat::kBf16;
  bool backward = false;
  double own_seconds = 0;      // median
  double library_seconds = 0;  // median

  bool operator==(const AttentionTime&) const = default;
};

struct AttentionTimes {
  std::string library;  // name and version, "cudnn-91900"; empty: not measured
  std::vector<AttentionTime> of;

  bool operator==(const AttentionTimes&) const = default;
};

// True if runs should use the library's kernels: it must be 2 % faster, so that noise changes
// nothing.
bool IsLibraryFaster(const AttentionTime& time);

// Writes "library" and "of" into the object that is open.
void WriteAttentionTimes(const AttentionTimes& times, JsonWriter& json);

// Errors: kInvalidArgument for a missing, unknown or out-of-range field.
Result<void> ReadAttentionTimes(JsonFields fields, AttentionTimes& times);

}  // namespace foretrain
