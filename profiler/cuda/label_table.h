// Maps ops to small numbers that fit the 32 bits of an external id. Safe from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace foretrain {

class LabelTable {
 public:
  struct Label {
    std::int64_t op_id = -1;
    std::int32_t rank = 0;
  };

  // Number of an op and rank, the same on each call. Grows to the number of ops in the run's
  // programs.
  std::uint32_t Of(std::int64_t op_id, std::int32_t rank) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto [at, is_new] =
        numbers_.try_emplace({op_id, rank}, static_cast<std::uint32_t>(labels_.size()));
    if (is_new) labels_.push_back({op_id, rank});
    return at->second;
  }

  // False if the number was never given out.
  bool Find(std::uint32_t number, Label& label) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (number >= labels_.size()) return false;
    label = labels_[number];
    return true;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::int64_t, std::int32_t>, std::uint32_t> numbers_;  // guarded by mutex_
  std::vector<Label> labels_;                                               // guarded by mutex_
};

}  // namespace foretrain
