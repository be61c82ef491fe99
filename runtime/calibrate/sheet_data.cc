#include "runtime/calibrate/sheet_data.h"

#include <algorithm>
#include <array>

#include "runtime/device.h"

namespace foretrain {
namespace {

constexpr std::uint64_t kSeed = 17;
constexpr std::size_t kPatternFloats = 1 << 18;

std::size_t At(std::int64_t index) { return static_cast<std::size_t>(index); }

// What a buffer of a rank holds.
enum class Kind : std::uint8_t { kFloats, kTokens, kZero, kIndices, kCounts };
struct Content {
  Kind kind = Kind::kFloats;
  std::int64_t limit = 1;  // kIndices: 0, 1, ... below it, over and over; kCounts: their sum
};

// Ranks' counts of all pieces, of which one rank's of one piece are its rows.
std::int64_t AllRuns(const OpShape& s) {
  return std::max<std::int64_t>(1, std::int64_t{s.members} * s.pieces);
}

// What an op of a mixture of experts reads of who goes where, where the op that decides it is not
// part of the sheet: all rows are used alike, by experts in turn.
void AddExperts(const Program& program, const RankProgram& rank, const Instruction& instruction,
                std::vector<Content>& contents) {
  const Block& block = program.blocks[At(instruction.block)];
  for (const Op& op : block.ops) {
    const OpShape& s = op.shape;
    const auto set = [&](std::size_t operand, Kind kind, std::int64_t limit) {
      const std::int16_t slot = OperandsOf(block, op)[operand].slot;
      if (slot == kNoSlot) return;
      const Binding& binding = rank.bindings[At(instruction.first_binding + slot)];
      contents[At(binding.buffer)] = {kind, limit};
    };
    if (op.kind == OpKind::kRouteBackward) {
      set(2, Kind::kIndices, s.experts);
      set(3, Kind::kCounts, s.rows * s.per_token);
    } else if (op.kind == OpKind::kExpertGather) {
      set(1, Kind::kIndices, s.elements * s.per_token);
    } else if (op.kind == OpKind::kExpertCombine) {
      set(1, Kind::kIndices, s.elements);
    } else if (op.kind == OpKind::kExpertDots) {
      set(2, Kind::kIndices, s.elements);
    } else if (op.kind == OpKind::kGroupedGemm) {
      set(2, Kind::kCounts, (op.trans_a ? s.inner : s.rows) * AllRuns(s));
    } else if (s.members > 0 && !IsCommunication(op.kind) && op.kind != OpKind::kReadCounts &&
               (op.kind != OpKind::kQuantize || op.operand_count == 5)) {
      set(static_cast<std::size_t>(op.operand_count) - 1, Kind::kCounts, s.rows * AllRuns(s));
    }
  }
}

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
    }
    AddExperts(program, rank, instruction, contents);
  }
  return contents;
}

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

Result<void> FillState(const Sheet& sheet, Executor& executor, const FtDeviceApi& api,
                       const std::vector<int>& devices) {
  const Program& program = *sheet.program;
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    FT_ASSIGN(const DeviceQueue queue, DeviceQueue::Make(api, devices[r]));
    const Filler filler(api, queue, sheet.tokens);
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
