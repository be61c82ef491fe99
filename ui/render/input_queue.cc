#include "ui/render/input_queue.h"

namespace foretrain::ui {
namespace {

using Kind = InputEvent::Kind;

// Whether a frame that ends with `last` may also contain `next`.
bool FitsAfter(Kind last, Kind next) {
  if (next == Kind::kCharacter) return true;
  if (last == Kind::kButton || last == Kind::kKey) return false;
  return last != Kind::kWheel || next == Kind::kWheel;
}

}  // namespace

std::vector<InputEvent> InputQueue::TakeFrame() {
  std::vector<InputEvent> frame;
  for (Kind last = Kind::kMove; !events_.empty(); events_.pop_front()) {
    const InputEvent& next = events_.front();
    if (!FitsAfter(last, next.kind)) break;
    if (next.kind != Kind::kCharacter) last = next.kind;
    frame.push_back(next);
  }
  return frame;
}

}  // namespace foretrain::ui
