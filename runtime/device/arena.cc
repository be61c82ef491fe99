#include "runtime/device/arena.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>

#include "base/units.h"
#include "kernels/cpu/cpu_device.h"
#include "sim/memory/peak_memory.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) static_cast<void>(0)
#define ASAN_UNPOISON_MEMORY_REGION(address, size) static_cast<void>(0)
#endif

namespace foretrain {
namespace {

constexpr std::int64_t kPageBytes = 4096;              // alignment for pinned memory and disks
constexpr std::uint32_t kSignallingNan = 0x7fa00000U;  // an fp32 bit pattern

std::size_t Index(std::int64_t index) { return static_cast<std::size_t>(index); }

std::string Gib(std::int64_t bytes) { return FormatBytes(bytes); }

// A NaN makes every sum that includes it NaN, so that a read of dead memory is seen in the loss. In
// bf16 every other number is then a NaN.
void FillNan(std::byte* at, std::int64_t bytes) {
  for (std::int64_t i = 0; i + 4 <= bytes; i += 4) std::memcpy(at + i, &kSignallingNan, 4);
}

// ", free are 1 GiB of 80 GiB", or "" if the device does not report it.
std::string FreeText(const FtDeviceApi& api, int device) {
  std::array<char, 256> why{};
  FtMemory memory{};
  if (api.memory(device, &memory, why.data(), why.size()) != FT_OK) return "";
  return ", free are " + Gib(memory.free_bytes) + " of " + Gib(memory.total_bytes);
}

constexpr const char* kRemedy =
    "; try a smaller --micro-batch, --recompute full, or more ranks with --zero 3, --pp or --tp";

using RankPrograms = std::vector<const RankProgram*>;

std::int64_t BytesOf(const RankProgram& rank, Space space) {
  return rank.arena_bytes[Index(static_cast<int>(space))];
}

// Checks the pinned and pageable memory of the ranks. `device_arena_bytes` is the size of device
// arenas that lie in host memory too.
Result<void> CheckHostMemory(const RankPrograms& ranks, std::int64_t device_arena_bytes) {
  std::int64_t all = 0;
  for (const RankProgram* rank : ranks) {
    all += BytesOf(*rank, Space::kPinned) + BytesOf(*rank, Space::kHost);
  }
  if (all == 0) return {};
  std::array<char, 256> why{};
  FtMemory memory{};
  const FtDeviceApi& host = CpuDeviceApi();
  FT_TRY(
      Checked(host.memory(0, &memory, why.data(), why.size()), "ask for free memory", why.data()));
  if (all <= memory.free_bytes - device_arena_bytes) return {};
  return Fail(ErrorCode::kResourceExhausted,
              std::to_string(ranks.size()) + " ranks keep " + Gib(all) +
                  " in the host's memory, free are " + Gib(memory.free_bytes - device_arena_bytes) +
                  " of " + Gib(memory.total_bytes) +
                  "; try nvme instead of host, or a smaller --offload-fraction");
}

// Checks the ranks on one device; returns the total size of their arenas there. The fullest rank is
// named, with its largest categories, so that the message says what to reduce.
Result<std::int64_t> CheckDevice(const RankPrograms& ranks, const FtDeviceApi& api, int device,
                                 std::int64_t budget_bytes) {
  std::int64_t all = 0;
  for (const RankProgram* rank : ranks) all += BytesOf(*rank, Space::kDevice);
  const RankProgram& fullest =
      **std::max_element(ranks.begin(), ranks.end(), [](const auto* a, const auto* b) {
        return BytesOf(*a, Space::kDevice) < BytesOf(*b, Space::kDevice);
      });
  const PeakMemory peak = LinkedPeak(fullest, Space::kDevice);
  const std::int64_t arena_bytes = BytesOf(fullest, Space::kDevice);
  if (budget_bytes > 0 && arena_bytes > budget_bytes) {
    return Fail(ErrorCode::kInfeasible,
                "rank " + std::to_string(fullest.rank) + ": the plan needs " + Gib(arena_bytes) +
                    " of device memory, the budget is " + Gib(budget_bytes) +
                    "; at the peak: " + CategoryText(peak.bytes) + kRemedy);
  }
  std::array<char, 256> why{};
  FtMemory memory{};
  FT_TRY(Checked(api.memory(device, &memory, why.data(), why.size()), "ask for free memory",
                 why.data()));
  if (all <= memory.free_bytes) return all;
  return Fail(ErrorCode::kResourceExhausted,
              std::to_string(ranks.size()) + " ranks on one device need " + Gib(all) +
                  ", free are " + Gib(memory.free_bytes) + " of " + Gib(memory.total_bytes) +
                  "; the fullest is rank " + std::to_string(fullest.rank) + " with " +
                  Gib(arena_bytes) + ": " + CategoryText(peak.bytes) + kRemedy);
}

}  // namespace

std::string CategoryText(const CategoryBytes& table) {
  std::vector<std::pair<std::int64_t, int>> rows;  // (-bytes, category)
  for (int category = 0; category < kCategoryCount; ++category) {
    const std::int64_t bytes = table[Index(category)];
    if (bytes > 0) rows.emplace_back(-bytes, category);
  }
  std::sort(rows.begin(), rows.end());
  std::string text;
  for (const auto& [bytes, category] : rows) {
    if (!text.empty()) text += ", ";
    text += std::string(Name(static_cast<Category>(category))) + " " + Gib(-bytes);
  }
  return text;
}

// Nothing is allocated yet: a plan that does not fit fails at once and by name.
Result<void> CheckMemory(const Program& program, const FtDeviceApi& api,
                         const std::vector<LocalRank>& local, std::int64_t budget_bytes) {
  std::map<int, RankPrograms> by_device;
  RankPrograms here;
  for (const RankProgram& rank : program.ranks) {
    const auto found = std::find_if(local.begin(), local.end(),
                                    [&](const LocalRank& at) { return at.rank == rank.rank; });
    if (found == local.end()) continue;
    here.push_back(&rank);
    by_device[found->device].push_back(&rank);
  }
  std::int64_t all = 0;
  for (const auto& [device, ranks] : by_device) {
    FT_ASSIGN(const std::int64_t bytes, CheckDevice(ranks, api, device, budget_bytes));
    all += bytes;
  }
  return CheckHostMemory(here, api.asynchronous == 0 ? all : 0);
}

// One allocation for each space. Pinned memory comes from the device if it has such, else host
// memory is page-aligned for direct disk transfers.
Result<std::unique_ptr<RankArena>> RankArena::Make(const RankProgram& rank, const FtDeviceApi& api,
                                                   const ArenaOptions& options) {
  if (options.poison && api.asynchronous != 0) {
    return Fail(ErrorCode::kUnsupported,
                std::string(api.name) + ": poisoned memory needs a device that works at once");
  }
  std::unique_ptr<RankArena> arena(new RankArena(rank, options.poison));
  arena->bytes_ = rank.arena_bytes;
  const std::int64_t device_bytes = arena->bytes(Space::kDevice);
  auto memory = DeviceMemory::Make(api, options.device, device_bytes);
  if (!memory.has_value()) {
    const PeakMemory peak = LinkedPeak(rank, Space::kDevice);
    return Fail(memory.error().code, "rank " + std::to_string(rank.rank) + ": the arena of " +
                                         Gib(device_bytes) + " (" + CategoryText(peak.bytes) +
                                         ") was refused: " + memory.error().message +
                                         FreeText(api, options.device) + kRemedy);
  }
  arena->device_memory_ = *std::move(memory);
  arena->base_[Index(static_cast<int>(Space::kDevice))] = arena->device_memory_.data();
  for (const Space space : {Space::kPinned, Space::kHost}) {
    const std::int64_t bytes = arena->bytes(space);
    if (bytes == 0) continue;
    if (space == Space::kPinned && api.host_allocate != nullptr) {
      FT_TRY(arena->Pin(api, options.device, bytes));
      continue;
    }
    const auto rounded = Index((bytes + kPageBytes - 1) / kPageBytes * kPageBytes);
    auto& owner = arena->host_memory_[Index(static_cast<int>(space))];
    owner = {static_cast<std::byte*>(std::aligned_alloc(Index(kPageBytes), rounded)), &std::free};
    if (owner == nullptr) {
      return Fail(ErrorCode::kResourceExhausted, "rank " + std::to_string(rank.rank) + ": no " +
                                                     Gib(bytes) + " of " +
                                                     std::string(Name(space)) + " memory");
    }
    arena->base_[Index(static_cast<int>(space))] = owner.get();
  }
  if (const std::int64_t bytes = arena->bytes(Space::kNvme); bytes > 0) {
    auto file = NvmeFile::Make(bytes, options.nvme);
    if (!file.has_value()) {
      return Fail(file.error().code,
                  "rank " + std::to_string(rank.rank) + ": " + file.error().message);
    }
    arena->own_nvme_ = *std::move(file);
    arena->nvme_ = arena->own_nvme_.get();
  }
  FT_TRY(arena->Clear(api, options.device));
  return arena;
}

std::unique_ptr<RankArena> RankArena::Share(const RankProgram& rank, const RankArena& owner) {
  for (std::size_t space = 0; space < owner.bytes_.size(); ++space) {
    FT_CHECK(rank.arena_bytes[space] <= owner.bytes_[space]);
  }
  std::unique_ptr<RankArena> arena(new RankArena(rank, owner.poison_));
  arena->api_ = owner.api_;
  arena->nvme_ = owner.nvme_;
  arena->base_ = owner.base_;
  arena->bytes_ = owner.bytes_;
  arena->shares_ = true;
  return arena;
}

// Pinned memory may be limited even where plenty of host memory is free, so the message says what
// uses it.
Result<void> RankArena::Pin(const FtDeviceApi& api, int device, std::int64_t bytes) {
  auto pinned = DeviceMemory::MakePinned(api, device, bytes);
  if (!pinned.has_value()) {
    const PeakMemory peak = LinkedPeak(rank_, Space::kPinned);
    return Fail(pinned.error().code,
                "rank " + std::to_string(rank_.rank) + ": " + Gib(bytes) + " of pinned memory (" +
                    CategoryText(peak.bytes) + ") were refused: " + pinned.error().message +
                    "; try nvme instead of host, or a smaller --offload-fraction");
  }
  pinned_memory_ = *std::move(pinned);
  base_[Index(static_cast<int>(Space::kPinned))] = pinned_memory_.data();
  return {};
}

// Persistent buffers start as zeros. With poison all others get NaNs, and AddressSanitizer traps on
// their use until their first op.
Result<void> RankArena::Clear(const FtDeviceApi& api, int device) {
  api_ = &api;
  FT_ASSIGN(DeviceQueue queue, DeviceQueue::Make(api, device));
  for (std::size_t i = 0; i < rank_.buffers.size(); ++i) {
    const Buffer& buffer = rank_.buffers[i];
    if (buffer.offset < 0 || buffer.bytes == 0 || buffer.space == Space::kNvme) continue;
    std::byte* const at = BufferAt(static_cast<std::int32_t>(i));
    if (!buffer.persistent) {
      if (poison_) FillNan(at, buffer.bytes);
    } else if (buffer.space == Space::kDevice) {
      FT_TRY(Checked(api.fill(queue.get(), at, 0, buffer.bytes), "clear state",
                     api.queue_error(queue.get())));
    } else {
      std::memset(at, 0, Index(buffer.bytes));
    }
  }
  FT_TRY(Checked(api.queue_synchronize(queue.get()), "clear state", api.queue_error(queue.get())));
  if (api.asynchronous != 0) queue_ = std::move(queue);
  if (!poison_) return {};
  for (std::size_t i = 0; i < rank_.buffers.size(); ++i) {
    const Buffer& buffer = rank_.buffers[i];
    if (buffer.offset < 0 || buffer.persistent || buffer.space == Space::kNvme) continue;
    ASAN_POISON_MEMORY_REGION(BufferAt(static_cast<std::int32_t>(i)), Index(buffer.bytes));
  }
  return {};
}

// Memory is returned without poison: its next owner may use all of it.
RankArena::~RankArena() {
  if (shares_) return;
  for (std::size_t space = 0; space < base_.size(); ++space) {
    if (poison_ && base_[space] != nullptr) {
      ASAN_UNPOISON_MEMORY_REGION(base_[space], Index(bytes_[space]));
    }
  }
}

std::byte* RankArena::At(const Binding& binding) const {
  if (binding.bytes == 0) return nullptr;
  std::byte* const buffer = BufferAt(binding.buffer);
  return buffer == nullptr ? nullptr : buffer + binding.offset;
}

std::int64_t RankArena::FileOffset(const Binding& binding) const {
  const Buffer& buffer = rank_.buffers[Index(binding.buffer)];
  return buffer.space == Space::kNvme ? buffer.offset + binding.offset : -1;
}

// State may be on a disk, in host memory or on the device; callers need not know.
Result<void> RankArena::ReadState(const Binding& binding, void* to) const {
  if (const std::int64_t offset = FileOffset(binding); offset >= 0) {
    return nvme_->Read(offset, binding.bytes, to);
  }
  return Move(to, At(binding), binding.bytes);
}

Result<void> RankArena::WriteState(const Binding& binding, const void* from) {
  if (const std::int64_t offset = FileOffset(binding); offset >= 0) {
    return nvme_->Write(offset, binding.bytes, from);
  }
  return Move(At(binding), from, binding.bytes);
}

// Blocking; used between runs only, for loading and saving state.
Result<void> RankArena::Move(void* to, const void* from, std::int64_t bytes) const {
  if (api_->asynchronous == 0) {
    std::memcpy(to, from, Index(bytes));
    return {};
  }
  FT_TRY(Checked(api_->copy(queue_.get(), to, from, bytes), "copy state",
                 api_->queue_error(queue_.get())));
  return Checked(api_->queue_synchronize(queue_.get()), "copy state",
                 api_->queue_error(queue_.get()));
}

// Null for buffers on a disk, which have no address.
std::byte* RankArena::BufferAt(std::int32_t buffer) const {
  const Buffer& at = rank_.buffers[Index(buffer)];
  if (at.space == Space::kNvme) return nullptr;
  return base_[static_cast<std::size_t>(at.space)] + at.offset;
}

std::byte* RankArena::HostAt(std::int32_t buffer) const {
  const bool on_device = rank_.buffers[Index(buffer)].space == Space::kDevice;
  return on_device && api_->asynchronous != 0 ? nullptr : BufferAt(buffer);
}

// Opens a buffer's bytes for its op; without poison this does nothing.
void RankArena::Bear([[maybe_unused]] std::int32_t buffer) {
  if (!poison_ || rank_.buffers[Index(buffer)].space == Space::kNvme) return;
  ASAN_UNPOISON_MEMORY_REGION(BufferAt(buffer), Index(rank_.buffers[Index(buffer)].bytes));
}

// Fills the dead buffer with NaNs first, so that builds without AddressSanitizer see its misuse
// too.
void RankArena::Bury(std::int32_t buffer) {
  if (!poison_ || rank_.buffers[Index(buffer)].space == Space::kNvme) return;
  const std::int64_t bytes = rank_.buffers[Index(buffer)].bytes;
  FillNan(BufferAt(buffer), bytes);
  ASAN_POISON_MEMORY_REGION(BufferAt(buffer), Index(bytes));
}

}  // namespace foretrain
