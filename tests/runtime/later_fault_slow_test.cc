// Every call of a device fails in turn: slow, since there are hundreds.
#include <gtest/gtest.h>

#include "later_fault.h"

namespace foretrain {
namespace {

TEST(EveryCallLater, ThatFailsEndsTheRunAndLeavesNothing) { FailCallsInTurn(0); }

}  // namespace
}  // namespace foretrain
