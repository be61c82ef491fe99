// Interface to the tokens of a step. Files: runtime/data/token_data.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"

namespace foretrain {

// One micro-batch of one data-parallel rank. With context parallelism, rank `cp` gets the tokens of
// its chunks (sim/program/blocks/layer/context_parallel.h).
struct BatchRequest {
  std::int64_t step = 0;
  int dp = 0;
  int micro_batch = 0;
  int cp = 0;
};

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // Fills `ids` and `targets`, sample by sample; each is empty or micro_batch * LocalSequence()
  // long. A target is the token after its id. Equal requests give equal tokens. Safe from any
  // thread.
  virtual Result<void> Fill(const BatchRequest& request, std::span<std::int32_t> ids,
                            std::span<std::int32_t> targets) = 0;
  // Fills `starts`, as long as ids, with the position in the sample at which the document of each
  // token begins. Without an override each sample is one document. Safe from any thread.
  virtual Result<void> FillDocumentStarts(const BatchRequest& request,
                                          std::span<std::int32_t> starts) {
    (void)request;
    for (std::int32_t& start : starts) start = 0;
    return {};
  }
  // True if Fill of this request, with ids and targets of these sizes, would wait for a disk.
  virtual bool WouldWait(const BatchRequest& request, std::size_t ids, std::size_t targets) {
    (void)request, (void)ids, (void)targets;
    return false;
  }
};

}  // namespace foretrain
