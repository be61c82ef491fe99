// What a rank of a linked program holds at its fullest moment, tensor by tensor: the forecast's
// side of "what is live at the peak". Leaves out when that is in seconds, and what lies outside the
// program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/program/program.h"

namespace foretrain {

// Buffers alike: of the same tensor of the same block, or of the same state, and as large.
struct LiveTensors {
  std::string name;  // "mlp.gate of layer.forward", "gradients of embedding, layers 1-3"
  Category category = Category::kWorkspace;
  std::int64_t count = 0;
  std::int64_t bytes = 0;  // of all of them
  // First and last op that touches any of them, "mlp.up of forward layer 3 mb 0"; both empty:
  // they live for the whole run.
  std::string since;
  std::string until;
};

struct LiveAtPeak {
  int rank = 0;
  std::int64_t total_bytes = 0;  // LinkedPeak's
  std::string at;                // the op at which the peak is first reached; empty: state alone
  std::vector<LiveTensors> tensors;  // by falling bytes
};

// Of rank index `rank` of the program. The bytes of all `tensors` sum to `total_bytes`.
// O(ops + bindings + buffers * log); safe from any thread.
LiveAtPeak FindLiveAtPeak(const Program& program, std::size_t rank, Space space = Space::kDevice);

}  // namespace foretrain
