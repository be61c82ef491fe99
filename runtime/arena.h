// The memory of one rank: one allocation a space, in which the linked program says where each
// buffer lies. Leaves out memory outside the program (runtime/caching_allocator.h) and what was
// live when (runtime/memory_ledger.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/device_api.h"
#include "base/result.h"
#include "runtime/device.h"
#include "runtime/local_rank.h"
#include "runtime/nvme_file.h"
#include "sim/memory/peak_memory.h"
#include "sim/program/program.h"

namespace foretrain {

// "parameters 1.50 GiB, optimizer_state 3.00 GiB, activations 512 MiB", largest first, none of 0.
std::string CategoryText(const CategoryBytes& bytes);

// Checks before anything is allocated that each rank's device arena is within the budget, that all
// of them on a device are within what that has free, and that what lies in the host's memory is
// within what that has free, beside the device's arenas where they lie there too.
//
//   local         the ranks of `program` that this process runs, each on its device
//   budget_bytes  of each rank; 0: no budget
//
// Errors: kInfeasible, over the budget, or kResourceExhausted, over the free memory; either names
// the rank, the bytes, the categories at the peak and what to try.
Result<void> CheckMemory(const Program& program, const FtDeviceApi& api,
                         const std::vector<LocalRank>& local, std::int64_t budget_bytes);

struct ArenaOptions {
  int device = 0;
  // Fills what is dead with signalling NaNs and, in a build with AddressSanitizer, traps on its
  // use. Synchronous devices only; a run then takes about twice as long.
  bool poison = false;
  NvmeOptions nvme{};  // of buffers on a disk
};

// Buffers that persist are zero at the start; what others hold at their birth is undefined. What
// lies on a disk has no address and is never poisoned.
class RankArena {
 public:
  // Errors: kResourceExhausted, with asked, free and predicted bytes; kIo, no file on the disk.
  static Result<std::unique_ptr<RankArena>> Make(const RankProgram& rank, const FtDeviceApi& api,
                                                 const ArenaOptions& options);
  ~RankArena();
  RankArena(const RankArena&) = delete;
  RankArena& operator=(const RankArena&) = delete;

  // Address of the first byte; null for an absent operand (bytes == 0) and for one on a disk.
  std::byte* At(const Binding& binding) const;
  std::byte* BufferAt(std::int32_t buffer) const;
  // Place of the first byte in the file of what lies on a disk; -1: it lies in memory.
  std::int64_t FileOffset(const Binding& binding) const;
  // Null where the program keeps nothing on a disk.
  NvmeFile* nvme() const { return nvme_.get(); }

  // Copies state from or to wherever it lies. Between runs. Errors: kIo.
  Result<void> ReadState(const Binding& binding, void* to) const;
  Result<void> WriteState(const Binding& binding, const void* from);

  std::int64_t bytes(Space space) const { return bytes_[static_cast<std::size_t>(space)]; }

  // With poison: an accessor of the buffer is about to start; its last has ended. Two buffers may
  // share some bytes and be live at once, where the one's ops on them wait for the other's last; so
  // that last one's Bury closes bytes that each later accessor's Bear opens again. From any thread.
  void Bear(std::int32_t buffer);
  void Bury(std::int32_t buffer);
  bool poisons() const { return poison_; }

 private:
  RankArena(const RankProgram& rank, bool poison) : rank_(rank), poison_(poison) {}
  Result<void> Pin(const FtDeviceApi& api, int device, std::int64_t bytes);
  Result<void> Clear(const FtDeviceApi& api, int device);
  // Copies between a buffer and the host's memory.
  Result<void> Move(void* to, const void* from, std::int64_t bytes) const;

  const RankProgram& rank_;
  const bool poison_;
  const FtDeviceApi* api_ = nullptr;
  DeviceQueue queue_;  // of copies outside of steps; a synchronous device needs none
  DeviceMemory device_memory_;
  DeviceMemory pinned_memory_;  // where the device has such
  std::unique_ptr<NvmeFile> nvme_;
  std::array<std::unique_ptr<std::byte, void (*)(void*)>, kSpaceCount> host_memory_{
      {{nullptr, nullptr}, {nullptr, nullptr}, {nullptr, nullptr}, {nullptr, nullptr}}};
  std::array<std::byte*, kSpaceCount> base_{};
  std::array<std::int64_t, kSpaceCount> bytes_{};
};

}  // namespace foretrain
