// Reads tables of published training runs: model, machine, plan and measurements. families.h holds
// what is known of a family's source.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace foretrain {

// One row. Counts are 0 and texts are empty where the source states nothing.
struct PublishedRun {
  std::string id;      // unique in its table
  std::string family;  // `id` up to its last dash
  std::string model;
  double parameters = 0;
  std::int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t ffn_hidden = 0;  // per expert if there are experts
  std::int64_t vocab = 0, sequence = 0, experts = 0, experts_per_token = 0;
  bool gated_mlp = false;

  std::string gpu;
  int gpus = 1, gpus_per_node = 1;
  double link_bytes_per_s = 0, network_bytes_per_s = 0;  // per GPU and direction, nominal
  // Bus bandwidth (nccl-tests' definition) that the job itself measured over all its GPUs, in bytes
  // per second.
  double all_reduce_bytes_per_s = 0, all_gather_bytes_per_s = 0, reduce_scatter_bytes_per_s = 0;

  std::string preset;      // the system that ran it
  std::string method;      // "full", "lora"; empty: full
  std::string rank_order;  // degrees from near to far, such as "tp-cp-pp-ep-dp"
  std::string dtype;
  int dp = 1, tp = 1, pp = 1, cp = 1, ep = 1;
  std::optional<int> vpp, zero_stage;
  bool sequence_parallel = false;
  std::string recompute, offload, attention;
  std::int64_t micro_batch = 0, global_batch = 0;
  std::string assumptions;

  double step_s = 0;           // measured; 0: not measured
  double peak_gib = 0;         // as the source states it; 0: not stated
  double reserved_gib = 0;     // held by the caching allocator; 0: not stated
  bool out_of_memory = false;  // the source states that the run does not fit

  double TokensPerStep() const {
    return static_cast<double>(global_batch) * static_cast<double>(sequence);
  }
};

// Reads the runs in `text`, a CSV with the columns of tests/data/validation/README.md. Optional
// columns may be missing.
//
//   file  origin of `text`, for messages
//
// Errors: kCorruptInput or kInvalidArgument, naming file, line and column: bad CSV, a missing
// column, a repeated id, or a value that is not a number or out of range. O(bytes); safe from any
// thread.
Result<std::vector<PublishedRun>> ParsePublishedRuns(std::string_view text, std::string_view file);

}  // namespace foretrain
