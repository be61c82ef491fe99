// The buffers that CUPTI fills: handed out and taken back by its callbacks, read by the thread that
// drains. Callbacks only move pointers, under a lock that no caller of CUPTI holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

namespace foretrain {

class ActivityBuffers {
 public:
  static constexpr std::size_t kBytes = std::size_t{1} << 20;  // some 3,700 launches

  struct Filled {
    std::uint8_t* memory = nullptr;
    std::size_t bytes = 0;
  };

  // At most `most` buffers at a time: 256 MiB.
  explicit ActivityBuffers(std::size_t most = 256) : most_(most) {}
  ActivityBuffers(const ActivityBuffers&) = delete;
  ActivityBuffers& operator=(const ActivityBuffers&) = delete;

  // A buffer of zeros, 8-byte aligned; null where all are out, which is counted.
  std::uint8_t* Request();
  void Complete(std::uint8_t* buffer, std::size_t bytes);

  // The oldest filled buffer; false: there is none. It goes back by Return.
  bool Next(Filled& filled);
  void Return(std::uint8_t* buffer);

  std::int64_t refused() const;

 private:
  struct Free {
    void operator()(std::uint8_t* memory) const;
  };
  using Buffer = std::unique_ptr<std::uint8_t, Free>;

  const std::size_t most_;
  mutable std::mutex mutex_;
  std::vector<Buffer> all_;          // guarded by mutex_, as all below
  std::vector<std::uint8_t*> idle_;  // zeroed
  std::deque<Filled> filled_;
  std::int64_t refused_ = 0;
};

}  // namespace foretrain
