#include "ui/render/input_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace foretrain::ui {
namespace {

using Kind = InputEvent::Kind;
using testing::ElementsAre;

InputEvent Move(double x) { return {Kind::kMove, x, 0.0}; }
InputEvent Wheel(double notches) { return {Kind::kWheel, 0.0, notches}; }
InputEvent Button(bool is_down) { return {Kind::kButton, 0.0, 0.0, 0, 0, is_down}; }
InputEvent Key(int key, bool is_down) { return {Kind::kKey, 0.0, 0.0, key, 0, is_down}; }
InputEvent Character(char character) { return {Kind::kCharacter, 0.0, 0.0, character}; }

std::string Word(const InputEvent& event) {
  const std::string down = event.is_down ? "+" : "-";
  switch (event.kind) {
    case Kind::kMove:
      return "x" + std::to_string(static_cast<int>(event.x));
    case Kind::kLeave:
      return "leave";
    case Kind::kButton:
      return "button" + down;
    case Kind::kWheel:
      return "wheel" + std::to_string(static_cast<int>(event.y));
    case Kind::kKey:
      return "key" + std::to_string(event.code) + down;
    case Kind::kCharacter:
      return std::string(1, static_cast<char>(event.code));
  }
  return "?";
}

// Frames that show `events` if all come between two frames, one string a frame.
std::vector<std::string> FramesOf(const std::vector<InputEvent>& events) {
  InputQueue queue;
  for (const InputEvent& event : events) queue.Push(event);
  std::vector<std::string> frames;
  while (!queue.IsEmpty()) {
    std::string frame;
    for (const InputEvent& event : queue.TakeFrame()) {
      frame += (frame.empty() ? "" : " ") + Word(event);
    }
    frames.push_back(frame);
  }
  return frames;
}

TEST(InputQueue, ShowsAPressAndItsReleaseInFramesOfTheirOwn) {
  EXPECT_THAT(FramesOf({Button(true), Button(false), Button(true), Button(false)}),
              ElementsAre("button+", "button-", "button+", "button-"));
}

TEST(InputQueue, PressesWhereTheMouseWas) {
  EXPECT_THAT(FramesOf({Move(1), Move(2), Button(true), Move(3), Button(false), Move(4)}),
              ElementsAre("x1 x2 button+", "x3 button-", "x4"));
}

TEST(InputQueue, HoldsTheModifierOfAChord) {
  EXPECT_THAT(FramesOf({Key(341, true), Key(51, true), Key(51, false), Key(341, false)}),
              ElementsAre("key341+", "key51+", "key51-", "key341-"));
}

TEST(InputQueue, KeepsCharactersWithTheirKeys) {
  EXPECT_THAT(FramesOf({Key(65, true), Character('a'), Key(65, false), Key(66, true),
                        Character('b'), Key(66, false)}),
              ElementsAre("key65+ a", "key65-", "key66+ b", "key66-"));
}

TEST(InputQueue, TurnsTheWheelWhereTheMouseWas) {
  EXPECT_THAT(FramesOf({Move(1), Wheel(1), Wheel(2), Move(2), Wheel(3), {Kind::kLeave}}),
              ElementsAre("x1 wheel1 wheel2", "x2 wheel3", "leave"));
}

TEST(InputQueue, HasNoEventsForAFrameWithoutAny) {
  InputQueue queue;
  EXPECT_TRUE(queue.IsEmpty());
  EXPECT_TRUE(queue.TakeFrame().empty());
}

}  // namespace
}  // namespace foretrain::ui
