// RAII owners of the objects that a device table creates. Kernels: runtime/ops/.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/device_api.h"
#include "base/result.h"
#include "runtime/device/device_status.h"

namespace foretrain {

// A queue of the device. On a synchronous device: one thread's scratch memory.
class DeviceQueue {
 public:
  DeviceQueue() = default;
  static Result<DeviceQueue> Make(const FtDeviceApi& api, int device) {
    DeviceQueue queue;
    std::array<char, 256> why{};
    FT_TRY(Checked(api.queue_create(device, &queue.queue_, why.data(), why.size()), "make a queue",
                   why.data()));
    queue.api_ = &api;
    return queue;
  }
  // Creates a queue in a share of the device.
  static Result<DeviceQueue> MakeIn(const FtDeviceApi& api, FtShare* share) {
    DeviceQueue queue;
    std::array<char, 256> why{};
    FT_TRY(Checked(api.queue_create_in(share, &queue.queue_, why.data(), why.size()),
                   "make a queue in a share", why.data()));
    queue.api_ = &api;
    return queue;
  }
  DeviceQueue(DeviceQueue&& other) noexcept
      : api_(std::exchange(other.api_, nullptr)), queue_(std::exchange(other.queue_, nullptr)) {}
  DeviceQueue& operator=(DeviceQueue&& other) noexcept {
    std::swap(api_, other.api_);
    std::swap(queue_, other.queue_);
    return *this;
  }
  ~DeviceQueue() {
    if (queue_ != nullptr) api_->queue_destroy(queue_);
  }

  FtQueue* get() const { return queue_; }

 private:
  const FtDeviceApi* api_ = nullptr;
  FtQueue* queue_ = nullptr;
};

// Disjoint shares of a device's multiprocessors.
class DeviceShares {
 public:
  DeviceShares() = default;
  // `count` shares of at least `multiprocessors` each. Errors: kUnsupported, the device cannot
  // create shares, or not that many.
  static Result<DeviceShares> Make(const FtDeviceApi& api, int device, int count,
                                   int multiprocessors) {
    if (api.shares_create == nullptr) {
      return Fail(ErrorCode::kUnsupported,
                  std::string(api.name) + ": this device cannot share out its multiprocessors");
    }
    DeviceShares made;
    std::vector<FtShare*> shares(static_cast<std::size_t>(count), nullptr);
    std::array<char, 256> why{};
    std::int32_t each = 0;
    FT_TRY(Checked(api.shares_create(device, count, multiprocessors, shares.data(), &each,
                                     why.data(), why.size()),
                   "share out the device's multiprocessors", why.data()));
    made.shares_ = std::move(shares);
    made.api_ = &api;
    return made;
  }
  DeviceShares(DeviceShares&& other) noexcept { *this = std::move(other); }
  DeviceShares& operator=(DeviceShares&& other) noexcept {
    std::swap(api_, other.api_);
    std::swap(shares_, other.shares_);
    return *this;
  }
  ~DeviceShares() {
    for (FtShare* share : shares_) api_->share_destroy(share);
  }

  // Null if there are no shares.
  FtShare* At(int index) const {
    return shares_.empty() ? nullptr : shares_[static_cast<std::size_t>(index)];
  }

 private:
  const FtDeviceApi* api_ = nullptr;
  std::vector<FtShare*> shares_;
};

// An event of an asynchronous device.
class DeviceEvent {
 public:
  DeviceEvent() = default;
  // `timed`: Since can be used.
  static Result<DeviceEvent> Make(const FtDeviceApi& api, int device, bool timed) {
    DeviceEvent event;
    std::array<char, 256> why{};
    FT_TRY(Checked(api.event_create(device, timed ? 1 : 0, &event.event_, why.data(), why.size()),
                   "make an event", why.data()));
    event.api_ = &api;
    return event;
  }
  DeviceEvent(DeviceEvent&& other) noexcept
      : api_(std::exchange(other.api_, nullptr)), event_(std::exchange(other.event_, nullptr)) {}
  DeviceEvent& operator=(DeviceEvent&& other) noexcept {
    std::swap(api_, other.api_);
    std::swap(event_, other.event_);
    return *this;
  }
  ~DeviceEvent() {
    if (event_ != nullptr) api_->event_destroy(event_);
  }

  FtEvent* get() const { return event_; }

  Result<void> RecordOn(FtQueue* queue) const {
    return Checked(api_->event_record(queue, event_), "record an event", api_->queue_error(queue));
  }
  // Work given to `queue` after this call starts after the event.
  Result<void> HoldUp(FtQueue* queue) const {
    return Checked(api_->event_wait(queue, event_), "wait for an event", api_->queue_error(queue));
  }
  // True if all work before the event's last record has ended. Errors: a failure of the device
  // since.
  Result<bool> HasEnded() const {
    std::array<char, 256> why{};
    std::int32_t done = 0;
    FT_TRY(Checked(api_->event_query(event_, &done, why.data(), why.size()), "work on the device",
                   why.data()));
    return done != 0;
  }
  // Nanoseconds from `earlier`'s record to this one's; both must have ended.
  Result<std::int64_t> Since(const DeviceEvent& earlier) const {
    std::array<char, 256> why{};
    std::int64_t ns = 0;
    FT_TRY(Checked(api_->event_elapsed(earlier.event_, event_, &ns, why.data(), why.size()),
                   "ask for an event's time", why.data()));
    return ns;
  }

 private:
  const FtDeviceApi* api_ = nullptr;
  FtEvent* event_ = nullptr;
};

// Recorded work of a queue, for devices with graphs.
class DeviceGraph {
 public:
  DeviceGraph() = default;
  // Takes the result of graph_end.
  DeviceGraph(const FtDeviceApi& api, FtGraph* graph) : api_(&api), graph_(graph) {}
  DeviceGraph(DeviceGraph&& other) noexcept
      : api_(std::exchange(other.api_, nullptr)), graph_(std::exchange(other.graph_, nullptr)) {}
  DeviceGraph& operator=(DeviceGraph&& other) noexcept {
    std::swap(api_, other.api_);
    std::swap(graph_, other.graph_);
    return *this;
  }
  ~DeviceGraph() {
    if (graph_ != nullptr) api_->graph_destroy(graph_);
  }

  FtGraph* get() const { return graph_; }

 private:
  const FtDeviceApi* api_ = nullptr;
  FtGraph* graph_ = nullptr;
};

// Memory of the device, or pinned memory of the host.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  // `bytes` >= 0, aligned to at least 256. Errors: kResourceExhausted.
  static Result<DeviceMemory> Make(const FtDeviceApi& api, int device, std::int64_t bytes) {
    return Make(device, bytes, api.allocate, api.release);
  }
  // For devices with pinned memory.
  static Result<DeviceMemory> MakePinned(const FtDeviceApi& api, int device, std::int64_t bytes) {
    return Make(device, bytes, api.host_allocate, api.host_release);
  }
  DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(release_, other.release_);
    std::swap(device_, other.device_);
    std::swap(pointer_, other.pointer_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~DeviceMemory() {
    std::array<char, 256> why{};
    // An error while releasing cannot be reported to anyone.
    if (pointer_ != nullptr) (void)release_(device_, pointer_, why.data(), why.size());
  }

  std::byte* data() const { return static_cast<std::byte*>(pointer_); }
  std::int64_t bytes() const { return bytes_; }

 private:
  using Allocate = FtStatus (*)(std::int32_t, std::int64_t, void**, char*, std::size_t);
  using Release = FtStatus (*)(std::int32_t, void*, char*, std::size_t);
  static Result<DeviceMemory> Make(int device, std::int64_t bytes, Allocate allocate,
                                   Release release) {
    DeviceMemory memory;
    if (bytes == 0) return memory;
    std::array<char, 256> why{};
    FT_TRY(Checked(allocate(device, bytes, &memory.pointer_, why.data(), why.size()),
                   "allocate " + std::to_string(bytes) + " bytes", why.data()));
    memory.release_ = release;
    memory.device_ = device;
    memory.bytes_ = bytes;
    return memory;
  }

  Release release_ = nullptr;
  int device_ = 0;
  void* pointer_ = nullptr;
  std::int64_t bytes_ = 0;
};

}  // namespace foretrain
