#include "ui/view_model/runs/model_builder.h"

#include <utility>

namespace foretrain::ui {
namespace {

constexpr std::size_t kMaxSpansAtOnce = 20'000;

std::size_t SpansOf(const std::optional<RunView>& run) {
  return run.has_value() ? run->timeline.spans.size() : 0;
}

bool IsLong(const std::optional<RunView>& run) { return run.has_value() && run->sums != nullptr; }

}  // namespace

bool TakesLongToBuild(const CompareInput& input) {
  return IsLong(input.predicted) || IsLong(input.measured) ||
         SpansOf(input.predicted) + SpansOf(input.measured) > kMaxSpansAtOnce;
}

// The thread starts with the first request.
void ModelBuilder::Ask(std::shared_ptr<const CompareInput> input, CompareFacts facts,
                       CompareOptions options) {
  if (worker_ == nullptr) {
    worker_ = std::make_unique<LatestWorker<Request, Model>>(
        [](const Request& request, const auto&) -> Result<Model> {
          return std::make_unique<const CompareModel>(
              BuildCompareModel(*request.input, request.facts, request.options));
        });
  }
  asked_ = worker_->Ask({std::move(input), std::move(facts), options});
}

void ModelBuilder::Cancel() {
  if (worker_ != nullptr) worker_->Cancel();
  asked_ = 0;
}

// An answer to an older request is dropped: its input may no longer be on display.
std::optional<Result<ModelBuilder::Model>> ModelBuilder::Take() {
  if (asked_ == 0) return std::nullopt;
  auto done = worker_->Take();
  if (!done || done->number != asked_) return std::nullopt;
  asked_ = 0;
  return std::move(done->answer);
}

}  // namespace foretrain::ui
