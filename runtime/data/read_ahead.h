// Reads batches before they are asked for, on a thread of its own, so that a step does not wait for
// the disk.
//
//   Fill(step s) ──► asks for steps s + 1 .. s + ahead ──► reader thread ──► source.Fill
//        ▲                                                       │
//        └─────────────── copy of what was read ◄────────────────┘
#pragma once

#include <compare>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "runtime/data/batch_source.h"

namespace foretrain {

// Gives what `source` gives. A request for step s makes the reader fetch the same micro-batch of
// the next steps; one that was not foreseen, as in the first step, is read at once by its caller.
// An error of reading ahead is returned to the request for that batch, so data that is never asked
// for cannot end a run. Safe from any thread. Holds up to ahead + 2 steps of the micro-batches that
// are asked for.
class ReadAhead final : public BatchSource {
 public:
  //   source  borrowed; used by the reader thread until the destructor has returned
  //   ahead   steps, > 0
  explicit ReadAhead(BatchSource& source, std::int64_t ahead = 2);
  ~ReadAhead() override;
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  Result<void> Fill(const BatchRequest& request, std::span<std::int32_t> ids,
                    std::span<std::int32_t> targets) override;
  // Reads the tokens once more: middle stages of a pipeline ask for nothing else.
  Result<void> FillDocumentStarts(const BatchRequest& request,
                                  std::span<std::int32_t> starts) override {
    return source_.FillDocumentStarts(request, starts);
  }
  bool WouldWait(const BatchRequest& request, std::size_t ids, std::size_t targets) override;

 private:
  // A micro-batch of some rank, in every step.
  struct Consumer {
    int dp = 0;
    int micro_batch = 0;
    int cp = 0;
    std::size_t ids = 0;
    std::size_t targets = 0;
    auto operator<=>(const Consumer&) const = default;
  };
  struct Batch {
    std::vector<std::int32_t> ids, targets;
    std::optional<Result<void>> end;  // set once it was read
  };
  using Batches = std::map<std::int64_t, std::shared_ptr<Batch>>;  // by step
  struct Asked {
    Consumer consumer;
    std::int64_t step = 0;
    std::shared_ptr<Batch> batch;  // shared by the map and whoever reads or waits for it
  };

  void Ask(const Consumer& consumer, std::int64_t step);
  Result<void> Read(const Asked& asked);
  void RunReader();

  BatchSource& source_;
  const std::int64_t ahead_;
  std::mutex mutex_;
  std::condition_variable asked_changed_, batch_read_;
  std::map<Consumer, Batches> batches_;  // guarded by mutex_, as all below
  std::deque<Asked> asked_;
  bool ends_ = false;
  bool has_reader_ = false;
  std::thread reader_;
};

}  // namespace foretrain
