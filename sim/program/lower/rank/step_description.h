// Describes one instruction of a rank's step: the block it runs and its use of tensors. All readers
// derive from it: emission binds it (RankBuilder::Add), memory adds up the tensors it makes and
// frees (step_memory.h), and the search prices its block (state_costs.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/program/ir/op.h"
#include "sim/program/ir/program.h"
#include "sim/program/lower/rank/block_registry.h"
#include "sim/program/lower/rank/skeleton.h"
#include "sim/program/lower/rank/tensor_table.h"

namespace foretrain {

// Relation of a tensor's life to the instruction that uses it.
enum class Life : std::uint8_t {
  kStays,     // lives before and after; is read or changed
  kMade,      // begins here
  kFreed,     // ends here, with its last reader
  kBorrowed,  // begins and ends here
  kShared,    // begins at the first of several instructions that use it, as passes of a block
};

// A tensor that the instruction binds to one slot of its block. It is found in the tensor table
// under `name`. If `state` is set, it lies in that buffer of a bucket, unless `name` is that of
// older parameters in the table. A tensor in a ring (overlap.h) is state: kMade and kFreed neither
// begin nor end it.
struct TensorUse {
  TensorName name = {};
  std::int32_t Bucket::*state = nullptr;
  int bucket = -1;
  Life life = Life::kStays;
  std::int64_t offset = 0;  // of the bound part, in bytes
  std::int64_t bytes = -1;  // of the bound part; -1: the rest of the tensor
  std::int64_t whole = 0;   // of the whole tensor; 0 if it stays
  Category category = Category::kWorkspace;
  Space space = Space::kDevice;
  NumberFormat format = NumberFormat::kFp32;
};

TensorUse Uses(const TensorName& name);
// Uses a scalar of which each rank has one.
TensorUse Uses(TensorKind kind);

// Bytes, category, format and space of a tensor that does not stay.
struct TensorShape {
  std::int64_t bytes = 0;
  Category category = Category::kWorkspace;
  NumberFormat format = NumberFormat::kFp32;
  Space space = Space::kDevice;
};
TensorUse Makes(const TensorName& name, const TensorShape& shape);
TensorUse Frees(const TensorName& name, const TensorShape& shape);
TensorUse Borrows(const TensorShape& shape);

// A tensor that lives during some ops of a block. It is made inside unless it `enters`, and gone
// after its last access unless it `stays`.
struct Tenant {
  std::int64_t bytes = 0;
  Category category = Category::kWorkspace;
  int first = -1;  // first op that touches it; -1: none does
  int last = -1;   // last op that touches it
  bool enters = false;
  bool stays = false;
};

// The tensors of a block that begin or end there.
struct Lives {
  std::vector<Tenant> tenants;
  int ops = 0;  // of the block
};

struct StepDescription {
  // Key of the block. It names every size that differs between instructions of one plan, so equal
  // keys mean equal blocks, which ranks, buckets and the search's prices share.
  std::string block;
  std::function<Block()> make;
  std::vector<TensorUse> uses;  // one per slot of the block that is no view, in their order
  // If set, returns the use of each slot that is not a view, in place of `uses`. Model blocks use
  // it: their uses follow from the roles of slots.
  std::function<TensorUse(const TensorSlot&)> use_of = {};
  // Set with `use_of`: returns the lives of the tensors of the instruction of `key`, which are on
  // the device. They follow from the block's other passes, which are looked up in `blocks` and made
  // if they are new.
  Lives (*lives)(const LowerContext& context, const InstructionKey& key,
                 BlockRegistry& blocks) = nullptr;
};

}  // namespace foretrain
