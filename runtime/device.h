// Owners of what a device table hands out. Leaves out kernels (runtime/ops/).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "base/device_api.h"
#include "base/result.h"
#include "runtime/device_status.h"

namespace foretrain {

// A queue of the device, destroyed with this. On a synchronous device: one thread's scratch memory.
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

// Memory of the device, released with this.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  // `bytes` >= 0, at the device's own alignment, at least 256. Errors: kResourceExhausted.
  static Result<DeviceMemory> Make(const FtDeviceApi& api, int device, std::int64_t bytes) {
    DeviceMemory memory;
    if (bytes == 0) return memory;
    std::array<char, 256> why{};
    FT_TRY(Checked(api.allocate(device, bytes, &memory.pointer_, why.data(), why.size()),
                   "allocate " + std::to_string(bytes) + " bytes", why.data()));
    memory.api_ = &api;
    memory.device_ = device;
    memory.bytes_ = bytes;
    return memory;
  }
  DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(api_, other.api_);
    std::swap(device_, other.device_);
    std::swap(pointer_, other.pointer_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~DeviceMemory() {
    std::array<char, 256> why{};
    // A failure to release has nobody left to tell.
    if (pointer_ != nullptr) (void)api_->release(device_, pointer_, why.data(), why.size());
  }

  std::byte* data() const { return static_cast<std::byte*>(pointer_); }
  std::int64_t bytes() const { return bytes_; }

 private:
  const FtDeviceApi* api_ = nullptr;
  int device_ = 0;
  void* pointer_ = nullptr;
  std::int64_t bytes_ = 0;
};

}  // namespace foretrain
