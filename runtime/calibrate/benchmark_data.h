// Input values of microbenchmarks: as in training, because some kernels are faster or slower on
// zeros, infinities or equal values.
#pragma once

#include <vector>

#include "base/device_api.h"
#include "base/numeric/random.h"
#include "base/result.h"
#include "runtime/calibrate/microbenchmark.h"
#include "runtime/data/batch_source.h"
#include "runtime/executor/executor.h"

namespace foretrain {

// Uniform random tokens in [0, tokens).
class RandomTokens : public BatchSource {
 public:
  explicit RandomTokens(std::int64_t tokens) : tokens_(tokens) {}
  Result<void> Fill(const BatchRequest& request, std::span<std::int32_t> ids,
                    std::span<std::int32_t> targets) override;

 private:
  std::int64_t tokens_;
};

// Fills the microbenchmark's state: small normal values, tokens where tokens are read, and 0 for
// optimizer state, whose second moments must not be negative. `devices`: one for each rank.
Result<void> FillState(const Microbenchmark& benchmark, Executor& executor, const FtDeviceApi& api,
                       const std::vector<int>& devices);

}  // namespace foretrain
