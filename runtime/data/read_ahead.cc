#include "runtime/data/read_ahead.h"

#include <algorithm>
#include <exception>
#include <string>
#include <system_error>
#include <utility>

namespace foretrain {

// If the system has no thread left, each request is read by its caller.
ReadAhead::ReadAhead(BatchSource& source, std::int64_t ahead) : source_(source), ahead_(ahead) {
  FT_CHECK(ahead > 0);
  try {
    reader_ = std::thread([this] { RunReader(); });
    has_reader_ = true;
  } catch (const std::system_error&) {
    // has_reader_ says so.
  }
}

ReadAhead::~ReadAhead() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  asked_changed_.notify_all();
  if (reader_.joinable()) reader_.join();
}

// A batch stays until its consumer is two steps further, because the ranks of a tensor-parallel
// group ask for the same one, each in its own time.
Result<void> ReadAhead::Fill(const BatchRequest& request, std::span<std::int32_t> ids,
                             std::span<std::int32_t> targets) {
  const Consumer consumer{request.dp, request.micro_batch, request.cp, ids.size(), targets.size()};
  std::shared_ptr<Batch> batch;
  {
    std::unique_lock lock(mutex_);
    if (!has_reader_) {
      lock.unlock();
      return source_.Fill(request, ids, targets);
    }
    Batches& known = batches_[consumer];
    known.erase(known.begin(), known.lower_bound(request.step - 1));
    if (const auto found = known.find(request.step); found != known.end()) batch = found->second;
    for (std::int64_t i = 1; i <= ahead_; ++i) Ask(consumer, request.step + i);
    if (batch != nullptr) batch_read_.wait(lock, [&] { return batch->end.has_value(); });
  }
  if (batch == nullptr) return source_.Fill(request, ids, targets);
  std::copy(batch->ids.begin(), batch->ids.end(), ids.begin());
  std::copy(batch->targets.begin(), batch->targets.end(), targets.begin());
  return *batch->end;
}

bool ReadAhead::WouldWait(const BatchRequest& request, std::size_t ids, std::size_t targets) {
  const std::lock_guard lock(mutex_);
  const Batches& known = batches_[{request.dp, request.micro_batch, request.cp, ids, targets}];
  const auto found = known.find(request.step);
  return found == known.end() || !found->second->end.has_value();
}

// Asks the reader for a batch unless it is known. Called with mutex_ held.
void ReadAhead::Ask(const Consumer& consumer, std::int64_t step) {
  const auto [at, is_new] = batches_[consumer].try_emplace(step);
  if (!is_new) return;
  at->second = std::make_shared<Batch>();
  asked_.push_back({consumer, step, at->second});
  asked_changed_.notify_one();
}

Result<void> ReadAhead::Read(const Asked& asked) {
  const Consumer& consumer = asked.consumer;
  try {
    asked.batch->ids.resize(consumer.ids);
    asked.batch->targets.resize(consumer.targets);
    return source_.Fill({asked.step, consumer.dp, consumer.micro_batch, consumer.cp},
                        asked.batch->ids, asked.batch->targets);
  } catch (const std::exception& thrown) {
    return Fail(ErrorCode::kResourceExhausted, std::string("reading data ahead: ") + thrown.what());
  }
}

// Batches are read in the order in which they were asked for: those of the next step first.
void ReadAhead::RunReader() {
  std::unique_lock lock(mutex_);
  for (;;) {
    asked_changed_.wait(lock, [this] { return ends_ || !asked_.empty(); });
    if (ends_) return;
    const Asked asked = std::move(asked_.front());
    asked_.pop_front();
    lock.unlock();
    Result<void> end = Read(asked);
    lock.lock();
    asked.batch->end = std::move(end);
    batch_read_.notify_all();
  }
}

}  // namespace foretrain
