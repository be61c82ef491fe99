#include "runtime/run/captured_sink.h"

namespace foretrain {

void CapturedSink::HandOn() {
  if (!ready_.empty()) next_.OnSpans(ready_);
  ready_.clear();
}

// Host spans go in, spans that are ready come out: those may be of earlier ops.
void CapturedSink::OnSpans(std::span<const Span> spans) {
  if (capture_ == nullptr) return next_.OnSpans(spans);
  capture_->AddHost(spans);
  capture_->Take(ready_);
  HandOn();
}

void CapturedSink::OnStepWindow(const StepWindow& window) {
  if (capture_ != nullptr) capture_->StepEnded(window);
  next_.OnStepWindow(window);
}

void CapturedSink::End() {
  if (capture_ == nullptr) return next_.OnCapture(rank_, {});
  capture_->Finish(ready_);
  HandOn();
  next_.OnCapture(rank_, capture_->Report());
}

}  // namespace foretrain
