#include "profiler/cuda/activity_buffers.h"

#include <cstdlib>
#include <cstring>

namespace foretrain {

void ActivityBuffers::Free::operator()(std::uint8_t* memory) const { std::free(memory); }

// Called by CUPTI, possibly on a launching thread. Reuses a zeroed buffer if there is one; beyond
// the limit CUPTI drops records and counts them.
std::uint8_t* ActivityBuffers::Request() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!idle_.empty()) {
    std::uint8_t* const buffer = idle_.back();
    idle_.pop_back();
    return buffer;
  }
  Buffer made;
  if (all_.size() < max_) made.reset(static_cast<std::uint8_t*>(std::calloc(1, kBytes)));
  if (made == nullptr) {
    ++refused_;
    return nullptr;
  }
  all_.push_back(std::move(made));
  return all_.back().get();
}

// Called by CUPTI too. Buffers are drained in the order in which they were filled.
void ActivityBuffers::Complete(std::uint8_t* buffer, std::size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  filled_.push_back({buffer, bytes});
}

bool ActivityBuffers::Next(Filled& filled) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (filled_.empty()) return false;
  filled = filled_.front();
  filled_.pop_front();
  return true;
}

void ActivityBuffers::Return(std::uint8_t* buffer) {
  // Zeroed here, on the draining thread, so that CUPTI need not do it on the launching one.
  std::memset(buffer, 0, kBytes);
  const std::lock_guard<std::mutex> lock(mutex_);
  idle_.push_back(buffer);
}

std::int64_t ActivityBuffers::refused() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return refused_;
}

}  // namespace foretrain
