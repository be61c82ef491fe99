// Lists the tensors that a rank of a linked program holds at its peak. This is the forecast's side
// of "what is live at the peak". Leaves out seconds and memory outside the program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/program/ir/program.h"

namespace foretrain {

// Equal buffers: the same size, and the same tensor of a block or the same kind of state.
struct LiveTensors {
  std::string name;  // "mlp.gate of layer.forward", "gradients of embedding, layers 1-3"
  Category category = Category::kWorkspace;
  std::int64_t count = 0;
  std::int64_t bytes = 0;  // of all of them
  // First and last op that touches any of them, as in "mlp.up of forward layer 3 mb 0". Both are
  // empty if they live for the whole run.
  std::string since;
  std::string until;
};

struct LiveAtPeak {
  int rank = 0;
  std::int64_t total_bytes = 0;      // LinkedPeak's
  std::string at;                    // op that first reaches the peak; empty: state alone
  std::vector<LiveTensors> tensors;  // in order of falling bytes
};

// Tensors of rank number `rank` of the program. Their bytes sum to `total_bytes`. O(ops + bindings
// + buffers * log); safe from any thread.
LiveAtPeak FindLiveAtPeak(const Program& program, std::size_t rank, Space space = Space::kDevice);

}  // namespace foretrain
