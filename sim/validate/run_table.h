// Reads tables of published training runs: what was trained, on what, how, and what was measured.
// Leaves out what a family's source is known to do beside (families.h) and predictions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace foretrain {

// One row. Counts are 0 and texts empty where the source does not state them.
struct PublishedRun {
  std::string id;      // unique in its table
  std::string family;  // `id` before its last dash
  std::string model;
  double parameters = 0;
  std::int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t ffn_hidden = 0;  // of one expert where there are experts
  std::int64_t vocab = 0, sequence = 0, experts = 0, experts_per_token = 0;
  bool gated_mlp = false;

  std::string gpu;
  int gpus = 1, gpus_per_node = 1;
  double link_bytes_per_s = 0, network_bytes_per_s = 0;  // per GPU and direction, nominal

  std::string dtype;
  int dp = 1, tp = 1, pp = 1, cp = 1, ep = 1;
  std::optional<int> vpp, zero_stage;
  bool sequence_parallel = false;
  std::string recompute, offload, attention;
  std::int64_t micro_batch = 0, global_batch = 0;
  std::string assumptions;

  double step_s = 0;           // measured; 0: none
  double peak_gib = 0;         // as the source states it; 0: none
  bool out_of_memory = false;  // the source says that it does not fit

  double TokensPerStep() const {
    return static_cast<double>(global_batch) * static_cast<double>(sequence);
  }
};

// The runs in `text`, CSV with the columns of tests/data/validation/README.md; columns that are not
// needed may be missing.
//
//   file  where `text` comes from, for messages
//
// Errors: kCorruptInput or kInvalidArgument, naming file, line and column: bad CSV, a missing
// column, a repeated id, a figure that is none or out of range. O(bytes); safe from any thread.
Result<std::vector<PublishedRun>> ParsePublishedRuns(std::string_view text, std::string_view file);

}  // namespace foretrain
