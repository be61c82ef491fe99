// Values by which ranks find each other, kept by rank 0. A rank stores under its own number alone:
// that of its connection, not one that it says. Values never change.
#include <algorithm>

#include "runtime/processes/group_messages.h"
#include "runtime/processes/process_group.h"
#include "runtime/processes/wire/packing.h"

namespace foretrain {

constexpr std::size_t kMaxValue = 60'000;  // name and value, in bytes: less than a message

Result<void> ProcessGroup::Put(int rank, const std::string& name, const std::string& value) {
  FT_CHECK(rank == at_.rank);
  if (name.size() + value.size() > kMaxValue) {
    return Fail(ErrorCode::kInvalidArgument, "rank " + std::to_string(rank) + ": " + name +
                                                 " has " + std::to_string(value.size()) +
                                                 " bytes, more than the store takes");
  }
  FT_TRY(Store(rank, name, value));
  if (rank != 0) Send(*peers_.at(0), kPut, Pack(name) + value);
  return {};
}

// Keeps the value and sends it to the ranks that wait for it.
Result<void> ProcessGroup::Store(int rank, const std::string& name, const std::string& value) {
  std::vector<int> waiting;
  {
    // Under mutex_, so that a rank that asks meanwhile either finds the value or is found here.
    const std::lock_guard<std::mutex> lock(mutex_);
    FT_TRY(values_.Put(rank, name, value));
    if (at_.rank == 0) {
      const auto asked = asked_.extract({rank, name});
      if (!asked.empty()) waiting = asked.mapped();
    }
  }
  for (const int other : waiting) {
    Send(*peers_.at(other), kValue, Pack(std::int32_t{rank}, name) + value);
  }
  return {};
}

// If the run has failed, its error is returned instead of that of the wait.
Result<std::string> ProcessGroup::Get(int owner, const std::string& name,
                                      const std::function<bool()>& over) {
  if (at_.rank != 0 && owner != at_.rank) {
    bool first = false;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      first = asked_.emplace(std::pair(owner, name), std::vector<int>()).second;
    }
    if (first) Send(*peers_.at(0), kGet, Pack(std::int32_t{owner}, name));
  }
  const auto failed = [this] {
    const std::lock_guard<std::mutex> lock(mutex_);
    return failure_;
  };
  auto value = values_.Get(owner, name, [&] { return failed().has_value() || (over && over()); });
  if (value.has_value()) return value;
  if (const auto failure = failed()) return tl::unexpected<Error>(*failure);
  return Fail(value.error().code,
              "rank " + std::to_string(at_.rank) + ": " + value.error().message);
}

// kPut: a rank's value comes to rank 0. kGet: a rank asks rank 0. kValue: rank 0 answers, once.
bool ProcessGroup::ObeyValue(int rank, Peer& peer, const Frame& frame) {
  Reader reader(frame.text);
  std::int32_t owner = rank;
  std::string name;
  if (!(frame.type == kPut ? reader(name) : reader(owner, name)) || owner < 0 ||
      owner >= at_.world) {
    return false;
  }
  if (frame.type == kPut) return Store(rank, name, std::string(reader.Rest())).has_value();
  const std::pair<int, std::string> key(owner, name);
  std::optional<std::string> value;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (frame.type == kValue) {
      const bool asked = owner != at_.rank && asked_.count(key) != 0;
      return asked && values_.Put(owner, name, std::string(reader.Rest())).has_value();
    }
    value = values_.Find(owner, name);
    if (!value) {
      std::vector<int>& waiting = asked_[key];
      if (std::find(waiting.begin(), waiting.end(), rank) != waiting.end()) return false;
      waiting.push_back(rank);
    }
  }
  if (value) Send(peer, kValue, Pack(owner, name) + *value);
  return true;
}

}  // namespace foretrain
