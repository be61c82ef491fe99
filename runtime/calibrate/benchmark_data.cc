#include "runtime/calibrate/benchmark_data.h"

#include <algorithm>

#include "runtime/device/device.h"
#include "sim/program/ops/op_kinds.h"

namespace foretrain {
namespace {

constexpr std::uint64_t kSeed = 17;
constexpr std::size_t kPatternFloats = 1 << 18;

std::size_t At(std::int64_t index) { return static_cast<std::size_t>(index); }

// Values of a rank's buffer.
enum class Kind : std::uint8_t { kFloats, kTokens, kZero, kIndices, kCounts };
struct Content {
  Kind kind = Kind::kFloats;
  std::int64_t limit = 1;  // kIndices: 0, 1, ... below it, repeated; kCounts: their sum
};

// Number of (member, piece) pairs in a counts tensor; one of them gives the op's rows.
std::int64_t AllRuns(const OpShape& s) {
  return std::max<std::int64_t>(1, std::int64_t{s.members} * s.pieces);
}

// Fills the routing that ops of a mixture of experts read, since the op that decides it is not part
// of the microbenchmark: all rows are used alike, by experts in turn.
void AddExperts(const Program& program, const RankProgram& rank, const Instruction& instruction,
                std::vector<Content>& contents) {
  const Block& block = program.blocks[At(instruction.block)];
  for (const Op& op : block.ops) {
    const OpShape& s = op.shape;
    const auto set = [&](OperandName operand, Kind kind, std::int64_t limit) {
      const std::int16_t slot = OperandOf(block, op, operand).slot;
      if (slot == kNoSlot) return;
      const Binding& binding = rank.bindings[At(instruction.first_binding + slot)];
      contents[At(binding.buffer)] = {kind, limit};
    };
    if (op.kind == OpKind::kRouteBackward) {
      set("chosen", Kind::kIndices, s.experts);
      set("balance_counts", Kind::kCounts, s.rows * s.per_token);
    } else if (op.kind == OpKind::kExpertGather) {
      set("sources", Kind::kIndices, s.elements * s.per_token);
    } else if (op.kind == OpKind::kExpertCombine) {
      set("places", Kind::kIndices, s.elements);
    } else if (op.kind == OpKind::kExpertDots) {
      set("places", Kind::kIndices, s.elements);
    } else if (op.kind == OpKind::kGroupedGemm) {
      set("counts", Kind::kCounts, (op.trans_a ? s.inner : s.rows) * AllRuns(s));
    } else if (s.members > 0 && !IsCommunication(op.kind) && op.kind != OpKind::kReadCounts) {
      set("counts", Kind::kCounts, s.rows * AllRuns(s));
    }
  }
}

// The roles of the slots that a buffer is bound to decide its content; the default is small normal
// floats.
std::vector<Content> ContentsOf(const Program& program, const RankProgram& rank) {
  std::vector<Content> contents(rank.buffers.size());
  for (std::size_t i = 0; i < rank.buffers.size(); ++i) {
    if (rank.buffers[i].category == Category::kOptimizerState) contents[i].kind = Kind::kZero;
  }
  for (const Instruction& instruction : rank.step) {
    const std::vector<TensorSlot>& slots = program.blocks[At(instruction.block)].slots;
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const Binding& binding = rank.bindings[At(instruction.first_binding) + i];
      const bool tokens = slots[i].role == SlotRole::kIds || slots[i].role == SlotRole::kTargets;
      if (tokens && binding.bytes > 0) contents[At(binding.buffer)].kind = Kind::kTokens;
      const bool starts = slots[i].role == SlotRole::kDocumentStarts;
      if (starts && binding.bytes > 0) contents[At(binding.buffer)].kind = Kind::kZero;
    }
    AddExperts(program, rank, instruction, contents);
  }
  return contents;
}

// Copies one pattern of random values into buffers again and again. The values are drawn once, not
// for each buffer.
class Filler {
 public:
  Filler(const FtDeviceApi& api, const DeviceQueue& queue, std::int64_t tokens)
      : api_(api), queue_(queue), floats_(kPatternFloats), tokens_(kPatternFloats) {
    CounterRandom(kSeed, "calibrate.values").FillNormal(0, 0.0F, 0.02F, floats_);
    const CounterRandom random(kSeed, "calibrate.tokens");
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      tokens_[i] = static_cast<std::int32_t>(random.Below(i, static_cast<std::uint64_t>(tokens)));
    }
  }

  Result<void> Fill(std::byte* to, std::int64_t bytes, const Content& content) const {
    if (content.kind == Kind::kIndices || content.kind == Kind::kCounts) {
      return FillNumbers(to, bytes, content);
    }
    const bool tokens = content.kind == Kind::kTokens;
    const void* const from = tokens ? static_cast<const void*>(tokens_.data()) : floats_.data();
    const std::int64_t pattern = std::int64_t{kPatternFloats} * 4;
    for (std::int64_t done = 0; done < bytes; done += pattern) {
      FT_TRY(Checked(api_.copy(queue_.get(), to + done, from, std::min(pattern, bytes - done)),
                     "fill state", api_.queue_error(queue_.get())));
    }
    return Checked(api_.queue_synchronize(queue_.get()), "fill state",
                   api_.queue_error(queue_.get()));
  }

 private:
  // Counts are spread evenly: entry i gets limit (i + 1) / count - limit i / count, so that they
  // add up to the limit.
  Result<void> FillNumbers(std::byte* to, std::int64_t bytes, const Content& content) const {
    const std::int64_t count = bytes / 4;
    std::vector<std::int32_t> numbers(At(count));
    for (std::int64_t i = 0; i < count; ++i) {
      const bool counts = content.kind == Kind::kCounts;
      numbers[At(i)] = static_cast<std::int32_t>(
          counts ? content.limit * (i + 1) / count - content.limit * i / count : i % content.limit);
    }
    FT_TRY(Checked(api_.copy(queue_.get(), to, numbers.data(), count * 4), "fill state",
                   api_.queue_error(queue_.get())));
    return Checked(api_.queue_synchronize(queue_.get()), "fill state",
                   api_.queue_error(queue_.get()));
  }

  const FtDeviceApi& api_;
  const DeviceQueue& queue_;
  std::vector<float> floats_;
  std::vector<std::int32_t> tokens_;
};

}  // namespace

Result<void> RandomTokens::Fill(const BatchRequest& request, std::span<std::int32_t> ids,
                                std::span<std::int32_t> targets) {
  const CounterRandom random(kSeed, static_cast<std::uint64_t>(request.step));
  const auto token = [&](std::size_t i) {
    return static_cast<std::int32_t>(random.Below(i, static_cast<std::uint64_t>(tokens_)));
  };
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = token(i);
  for (std::size_t i = 0; i < targets.size(); ++i) targets[i] = token(i + 1);
  return {};
}

// Only persistent buffers are filled: all others are written by the program before they are read. A
// buffer without an address lies on a disk and is written through the arena.
Result<void> FillState(const Microbenchmark& benchmark, Executor& executor, const FtDeviceApi& api,
                       const std::vector<int>& devices) {
  const Program& program = *benchmark.program;
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    FT_ASSIGN(const DeviceQueue queue, DeviceQueue::Make(api, devices[r]));
    const Filler filler(api, queue, benchmark.tokens);
    const RankProgram& rank = program.ranks[r];
    const std::vector<Content> contents = ContentsOf(program, rank);
    RankArena& arena = executor.Arena(static_cast<int>(r));
    for (std::size_t i = 0; i < rank.buffers.size(); ++i) {
      const Buffer& buffer = rank.buffers[i];
      if (!buffer.persistent || buffer.bytes == 0 || contents[i].kind == Kind::kZero) continue;
      const auto number = static_cast<std::int32_t>(i);
      std::byte* const at = arena.BufferAt(number);
      if (at != nullptr) {
        FT_TRY(filler.Fill(at, buffer.bytes, contents[i]));
        continue;
      }
      std::vector<std::byte> values(At(buffer.bytes));  // of a disk
      FT_TRY(filler.Fill(values.data(), buffer.bytes, contents[i]));
      FT_TRY(arena.WriteState({number, 0, buffer.bytes}, values.data()));
    }
  }
  return {};
}

}  // namespace foretrain
