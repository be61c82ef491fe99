// The memory of one rank: one allocation for each space; the linked program places the buffers in
// it. Live bytes: runtime/device/memory_ledger.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/device_api.h"
#include "base/result.h"
#include "runtime/device/device.h"
#include "runtime/device/nvme_file.h"
#include "runtime/run/local_rank.h"
#include "sim/program/ir/category_bytes.h"
#include "sim/program/ir/program.h"

namespace foretrain {

// "parameters 1.50 GiB, optimizer_state 3.00 GiB, activations 512 MiB": largest first, without
// zeros.
std::string CategoryText(const CategoryBytes& bytes);

// Checks before any allocation that each rank's device arena fits the budget, and that all arenas
// of a device fit its free memory. Host memory is checked too, including device arenas that lie in
// it.
//
//   local         the ranks of `program` in this process, each with its device
//   budget_bytes  limit for each rank; 0: none
//
// Errors: kInfeasible, over the budget; kResourceExhausted, over the free memory. Both name the
// rank, the bytes, the categories at the peak and suggestions.
Result<void> CheckMemory(const Program& program, const FtDeviceApi& api,
                         const std::vector<LocalRank>& local, std::int64_t budget_bytes);

struct ArenaOptions {
  int device = 0;
  // Fills dead buffers with signalling NaNs; a build with AddressSanitizer also traps on their use.
  // Synchronous devices only; doubles a run's time.
  bool poison = false;
  NvmeOptions nvme{};  // for buffers on a disk
};

// Persistent buffers start as zeros; others are undefined when their lifetime starts. Buffers on a
// disk have no address and are never poisoned.
class RankArena {
 public:
  // Errors: kResourceExhausted, with requested, free and predicted bytes; kIo, no file on the disk.
  static Result<std::unique_ptr<RankArena>> Make(const RankProgram& rank, const FtDeviceApi& api,
                                                 const ArenaOptions& options);
  // The memory of `owner` for another program of the rank, whose state has the same addresses
  // (CompileEvaluation). `owner` outlives it, and only one of the two is used at a time.
  static std::unique_ptr<RankArena> Share(const RankProgram& rank, const RankArena& owner);
  ~RankArena();
  RankArena(const RankArena&) = delete;
  RankArena& operator=(const RankArena&) = delete;

  // Address of the first byte; null for an absent operand (bytes == 0) and for data on a disk.
  std::byte* At(const Binding& binding) const;
  std::byte* BufferAt(std::int32_t buffer) const;
  // BufferAt if the host may read and write there, else null: data on a disk, or in the memory of
  // an asynchronous device.
  std::byte* HostAt(std::int32_t buffer) const;
  // Offset of the first byte in the rank's file; -1 if the data lies in memory.
  std::int64_t FileOffset(const Binding& binding) const;
  // Null if the program keeps nothing on a disk.
  NvmeFile* nvme() const { return nvme_; }

  // Copies state from or to wherever it is stored. Only between runs. Errors: kIo.
  Result<void> ReadState(const Binding& binding, void* to) const;
  Result<void> WriteState(const Binding& binding, const void* from);

  std::int64_t BufferBytes(std::int32_t buffer) const {
    return rank_.buffers[static_cast<std::size_t>(buffer)].bytes;
  }
  std::int64_t bytes(Space space) const { return bytes_[static_cast<std::size_t>(space)]; }

  // With poison only. Bear: an op that uses the buffer is about to start. Bury: its last op has
  // ended. Two live buffers may share bytes if the ops of one wait for the other's last op. Bury
  // then closes bytes that the next Bear opens again. Safe from any thread.
  void Bear(std::int32_t buffer);
  void Bury(std::int32_t buffer);

 private:
  RankArena(const RankProgram& rank, bool poison) : rank_(rank), poison_(poison) {}
  Result<void> Pin(const FtDeviceApi& api, int device, std::int64_t bytes);
  Result<void> Clear(const FtDeviceApi& api, int device);
  // Copies between a buffer and host memory.
  Result<void> Move(void* to, const void* from, std::int64_t bytes) const;

  const RankProgram& rank_;
  const bool poison_;
  const FtDeviceApi* api_ = nullptr;
  // for copies outside of steps; unused on a synchronous device, and null if memory is shared
  DeviceQueue queue_;
  DeviceMemory device_memory_;
  DeviceMemory pinned_memory_;  // if the device has pinned memory
  NvmeFile* nvme_ = nullptr;
  std::array<std::unique_ptr<std::byte, void (*)(void*)>, kSpaceCount> host_memory_{
      {{nullptr, nullptr}, {nullptr, nullptr}, {nullptr, nullptr}, {nullptr, nullptr}}};
  std::array<std::byte*, kSpaceCount> base_{};
  std::array<std::int64_t, kSpaceCount> bytes_{};
  std::unique_ptr<NvmeFile> own_nvme_;
  bool shares_ = false;  // the memory is another arena's
};

}  // namespace foretrain
