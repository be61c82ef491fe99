// Models of the compare view built on a thread of their own while the one before is shown.
#pragma once

#include <memory>
#include <optional>

#include "base/result.h"
#include "ui/view_model/compare_model.h"
#include "ui/view_model/latest_worker.h"

namespace foretrain::ui {

// Whether BuildCompareModel of `input` takes longer than a frame may: about 0.3 us to 0.6 us a
// span, so more than 10 ms from 20,000 spans on.
bool TakesLongToBuild(const CompareInput& input);

// All functions are for one thread; only the destructor waits, for the model at work.
class ModelBuilder {
 public:
  using Model = std::unique_ptr<const CompareModel>;

  // Takes the place of what is asked for already. `input`: shared with who shows it, for the thread
  // may read it after others have taken its place there.
  void Ask(std::shared_ptr<const CompareInput> input, CompareFacts facts, CompareOptions options);

  // Drops what is asked for.
  void Cancel();

  // Whether a model is being built or waits to be taken.
  bool IsBusy() const { return asked_ != 0; }

  // The model that was asked for last, once it is there. Errors: kResourceExhausted, too little
  // memory.
  std::optional<Result<Model>> Take();

 private:
  struct Request {
    std::shared_ptr<const CompareInput> input;
    CompareFacts facts;
    CompareOptions options;
  };

  std::uint64_t asked_ = 0;  // number of the request that is waited for; 0: none
  // Null until something is asked for: most runs are short.
  std::unique_ptr<LatestWorker<Request, Model>> worker_;
};

}  // namespace foretrain::ui
