#include "tests/plugins/cuda/cudart/observe.h"

#include <atomic>
#include <utility>

namespace foretrain::cudart {
namespace {

std::atomic<const FakeCudaObserver*> observer{nullptr};
std::atomic<std::uint64_t> nodes{0};

FakeOrigin& Origin() {
  thread_local FakeOrigin origin;
  return origin;
}

}  // namespace

ObservedCall::ObservedCall(FakeCall call, void* stream) : call_(call) {
  const FakeCudaObserver* const told = observer.load();
  Origin() = told != nullptr ? told->begin(call, stream) : FakeOrigin{};
}

ObservedCall::~ObservedCall() {
  const FakeOrigin origin = std::exchange(Origin(), {});
  const FakeCudaObserver* const told = observer.load();
  if (told != nullptr && origin.correlation != 0) told->end(call_, origin);
}

FakeOrigin ObservedCall::Current() { return Origin(); }

void Do(const Work& work, FakeOrigin origin, FakePlace place) {
  const FakeCudaObserver* const told = observer.load();
  const bool is_told = told != nullptr && work.shown.kind != FakeWorkKind::kNone;
  const std::int64_t start_ns = is_told ? told->now() : 0;
  work.run();
  if (is_told) told->worked(work.shown, origin, place, start_ns, told->now());
}

Node MakeNode(Work work, std::uint64_t original) {
  const std::uint64_t number = ++nodes;
  const FakeCudaObserver* const told = observer.load();
  if (told != nullptr) told->made_node(number, original);
  return {std::move(work), number};
}

}  // namespace foretrain::cudart

extern "C" void cudaFakeObserve(const foretrain::FakeCudaObserver* told) {
  foretrain::cudart::observer = told;
}
