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
enum class Content : std::uint8_t { kFloats, kTokens, kZero };

std::vector<Content> ContentsOf(const Program& program, const RankProgram& rank) {
  std::vector<Content> contents(rank.buffers.size(), Content::kFloats);
  for (std::size_t i = 0; i < rank.buffers.size(); ++i) {
    if (rank.buffers[i].category == Category::kOptimizerState) contents[i] = Content::kZero;
  }
  for (const Instruction& instruction : rank.step) {
    const std::vector<TensorSlot>& slots = program.blocks[At(instruction.block)].slots;
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const Binding& binding = rank.bindings[At(instruction.first_binding) + i];
      const bool tokens = slots[i].role == SlotRole::kIds || slots[i].role == SlotRole::kTargets;
      if (tokens && binding.bytes > 0) contents[At(binding.buffer)] = Content::kTokens;
    }
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

  Result<void> Fill(std::byte* to, std::int64_t bytes, bool tokens) const {
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

Result<void> FillState(const Sheet& sheet, Executor& executor, const FtDeviceApi& api, int device) {
  FT_ASSIGN(const DeviceQueue queue, DeviceQueue::Make(api, device));
  const Filler filler(api, queue, sheet.tokens);
  const Program& program = *sheet.program;
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    const RankProgram& rank = program.ranks[r];
    const std::vector<Content> contents = ContentsOf(program, rank);
    RankArena& arena = executor.Arena(static_cast<int>(r));
    for (std::size_t i = 0; i < rank.buffers.size(); ++i) {
      const Buffer& buffer = rank.buffers[i];
      if (!buffer.persistent || buffer.bytes == 0 || contents[i] == Content::kZero) continue;
      FT_TRY(filler.Fill(arena.BufferAt(static_cast<std::int32_t>(i)), buffer.bytes,
                         contents[i] == Content::kTokens));
    }
  }
  return {};
}

}  // namespace foretrain
