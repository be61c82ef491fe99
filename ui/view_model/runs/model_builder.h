// Builds models of the compare view on a thread while the previous one stays on display.
#pragma once

#include <memory>
#include <optional>

#include "base/result.h"
#include "ui/view_model/runs/compare_model.h"
#include "ui/view_model/runs/latest_worker.h"

namespace foretrain::ui {

// Whether BuildCompareModel takes longer for `input` than a frame allows: 0.3 us to 0.6 us per
// span, so more than 10 ms from 20,000 spans on.
bool TakesLongToBuild(const CompareInput& input);

// All functions are for one thread. Only the destructor waits, for the current work.
class ModelBuilder {
 public:
  using Model = std::unique_ptr<const CompareModel>;

  // Replaces the previous request. `input` is shared with the view that shows it, because the
  // thread may still read it after the view has moved on.
  void Ask(std::shared_ptr<const CompareInput> input, CompareFacts facts, CompareOptions options);

  // Drops the current request.
  void Cancel();

  // Whether a model is being built or ready to be taken.
  bool IsBusy() const { return asked_ != 0; }

  // The model of the latest request, once it is done; nullopt before. Errors: kResourceExhausted if
  // memory runs out.
  std::optional<Result<Model>> Take();

 private:
  struct Request {
    std::shared_ptr<const CompareInput> input;
    CompareFacts facts;
    CompareOptions options;
  };

  std::uint64_t asked_ = 0;  // number of the awaited request; 0 if none
  // Null until the first request: most runs are short.
  std::unique_ptr<LatestWorker<Request, Model>> worker_;
};

}  // namespace foretrain::ui
