// Every call of a device fails in turn. Slow: there are hundreds.
#include <gtest/gtest.h>

#include "tests/runtime/device/later/later_fault.h"

namespace foretrain {
namespace {

TEST(EveryCallLater, ThatFailsEndsTheRunAndLeavesNothing) { FailCallsInTurn(0); }

}  // namespace
}  // namespace foretrain
