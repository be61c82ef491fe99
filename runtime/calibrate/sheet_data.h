// What a timed program works on: values as in training, so that no kernel meets numbers that are
// slower or faster than those. Leaves out real data.
#pragma once

#include <vector>

#include "base/device_api.h"
#include "base/random.h"
#include "base/result.h"
#include "runtime/calibrate/sheet.h"
#include "runtime/data/batch_source.h"
#include "runtime/executor.h"

namespace foretrain {

// Tokens below `tokens`, evenly.
class RandomTokens : public BatchSource {
 public:
  explicit RandomTokens(std::int64_t tokens) : tokens_(tokens) {}
  Result<void> Fill(const BatchRequest& request, std::span<std::int32_t> ids,
                    std::span<std::int32_t> targets) override;

 private:
  std::int64_t tokens_;
};

// Gives the sheet's state values: small normal ones, tokens where tokens are read, and zero for the
// optimizer, whose second moments are not negative. `devices`: of each rank.
Result<void> FillState(const Sheet& sheet, Executor& executor, const FtDeviceApi& api,
                       const std::vector<int>& devices);

}  // namespace foretrain
