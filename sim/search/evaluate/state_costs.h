// Costs of a rank's state: bytes, and the price of each instruction that gathers, reduces, moves or
// updates it. Prices come from the descriptions that emission binds (step_description.h). Leaves
// out passes of the model's blocks (block_table.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/program/lower/rank/block_registry.h"
#include "sim/program/lower/rank/skeleton.h"
#include "sim/search/evaluate/block_table.h"
#include "sim/search/evaluate/state_table.h"

namespace foretrain {

// The cost that an instruction's seconds are added to.
enum class StepRole : std::uint8_t {
  kGather,         // gathers of parameters for one use
  kReduce,         // reductions and copies of one micro-batch's gradients
  kSum,            // gradient reductions once per step
  kUpdatedGather,  // gathers of updated parameters
  kAway,           // updates of offloaded state, and their copies
  kUpdate,         // everything else after the last backward
};

struct PricedStep {
  InstructionKey key;
  std::string name;  // key of its block
  int block = 0;     // its number among PricedSteps::blocks
  StepRole role = StepRole::kUpdate;
  Queue queue = Queue::kCompute;
  // The group has members on several stages. Then `seconds` is 0, because the price depends on the
  // number of stages.
  bool spans_stages = false;
  bool last = false;  // no pass of a layer follows in the step
  double seconds = 0;
  std::int64_t peak_bytes = 0;  // on the device; gathers only, else 0
};

struct PricedSteps {
  BlockRegistry blocks;
  std::vector<PricedStep> steps;
};

enum class Outlined {
  kAll,         // all instructions of two micro-batches and of the update
  kMicroBatch,  // gathers and reductions of one micro-batch, which stand for those of others
  kUpdate,      // the update's instructions
};

// Instructions of a few micro-batches and of the update after them, each with its price. With kAll,
// every block of the rank's step occurs, except three kinds that are priced elsewhere: passes of
// the model's blocks, transfers between stages, and copies of activations. O(buckets + blocks).
PricedSteps PriceSteps(const LowerContext& context, BlockTimes& times, Outlined outlined);

// Bytes of the rank's state, and the sums of these prices.
StateCosts StateCostsOf(const LowerContext& context, BlockTimes& times);
UpdateCosts UpdateCostsOf(const LowerContext& context, BlockTimes& times);

}  // namespace foretrain
