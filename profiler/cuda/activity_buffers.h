// The buffers that CUPTI fills. Its callbacks take and return them; the draining thread reads them.
// Callbacks only move pointers, under a lock that is never held while CUPTI is called.
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
  static constexpr std::size_t kBytes = std::size_t{1} << 20;  // about 3,700 launches

  struct Filled {
    std::uint8_t* memory = nullptr;
    std::size_t bytes = 0;
  };

  // At most `max` buffers exist: 256 MiB.
  explicit ActivityBuffers(std::size_t max = 256) : max_(max) {}
  ActivityBuffers(const ActivityBuffers&) = delete;
  ActivityBuffers& operator=(const ActivityBuffers&) = delete;

  // A zeroed buffer, 8-byte aligned. Null if all are in use, which is counted.
  std::uint8_t* Request();
  void Complete(std::uint8_t* buffer, std::size_t bytes);

  // The oldest filled buffer, to be given back by Return. False if there is none.
  bool Next(Filled& filled);
  void Return(std::uint8_t* buffer);

  std::int64_t refused() const;

 private:
  struct Free {
    void operator()(std::uint8_t* memory) const;
  };
  using Buffer = std::unique_ptr<std::uint8_t, Free>;

  const std::size_t max_;
  mutable std::mutex mutex_;
  std::vector<Buffer> all_;          // guarded by mutex_, as all below
  std::vector<std::uint8_t*> idle_;  // zeroed
  std::deque<Filled> filled_;
  std::int64_t refused_ = 0;
};

}  // namespace foretrain
