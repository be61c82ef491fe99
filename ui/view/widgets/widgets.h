// Dear ImGui's controls in the desktop's style. Their content is added to the frame's record.
// Shapes and plots are drawn by the Canvas.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ui/view/screens/screen.h"

namespace foretrain::ui {

// Sets Dear ImGui's colours to `theme` and its sizes to `scale`. Call once per frame, before any
// widget.
void ApplyStyle(const Theme& theme, float scale);

// Opens a borderless window in `box` for widgets, above the Canvas's shapes. It scrolls if its
// content is higher than the box. `id` is unique in the desktop. EndPanel must follow.
void BeginPanel(const ScreenFrame& frame, const Box& box, const char* id);
void EndPanel();

// Text in a panel. Each call adds a label to the record.
void Label(const ScreenFrame& frame, std::string_view text);       // plain
void MutedLabel(const ScreenFrame& frame, std::string_view text);  // names
void Title(const ScreenFrame& frame, std::string_view text);       // bold
void NumberText(const ScreenFrame& frame, std::string_view text);  // numbers, in mono
void ColouredNumber(const ScreenFrame& frame, Colour colour, std::string_view text);
void SmallText(const ScreenFrame& frame, Colour colour, std::string_view text);  // wraps
void SmallMono(const ScreenFrame& frame, Colour colour, std::string_view text);  // wraps
void Paragraph(const ScreenFrame& frame, std::string_view text);  // wraps at the panel's width
void Paragraph(const ScreenFrame& frame, std::string_view text, Colour colour);

// Controls. Each draws `label` before itself unless it is empty, takes the rest of the line, and
// returns whether it was used in this frame. `label` is unique in its panel.
bool Button(const ScreenFrame& frame, const char* label, bool enabled = true);
// As high as a line of text, for tables. `name` identifies it in the record.
bool SmallButton(const ScreenFrame& frame, const char* label, std::string_view name);
// Clickable text, as wide as the panel.
bool LinkButton(const ScreenFrame& frame, const char* label);
// The first cell of a table's row, which a click on any of its cells selects. `name` identifies it
// in the record; empty: its text.
bool SelectableRow(const ScreenFrame& frame, const std::string& text, bool chosen,
                   std::string_view name = {});
bool Toggle(const ScreenFrame& frame, const char* label, bool* on);
bool Combo(const ScreenFrame& frame, const char* label, int* chosen,
           const std::vector<std::string>& items);
bool IntSlider(const ScreenFrame& frame, const char* label, int* value, int low, int high);
// `text` is the displayed value with its unit. `logarithmic`: equal factors have equal lengths.
bool Slider(const ScreenFrame& frame, const char* label, double* value, double low, double high,
            const std::string& text, bool logarithmic = false);
// `room`: pixels to leave free on the right.
bool TextField(const ScreenFrame& frame, const char* label, std::string* text,
               const char* hint = "", float room = 0.0F);

// Shows a sentence next to the mouse while it is over the previous widget.
void Tooltip(const ScreenFrame& frame, std::string_view text);

// A table with striped rows and a fixed header. If it returns true, rows and EndTable must follow;
// otherwise the table is not visible. `sortable`: clicks on the header sort
// (ImGui::TableGetSortSpecs). The initial order is descending by column `sorted_by`, or ascending
// by the first if that is -1. `height` 0: the rest of the panel.
bool BeginTable(const ScreenFrame& frame, const char* id, const std::vector<std::string>& columns,
                bool sortable = false, int sorted_by = -1, float height = 0.0F);
void EndTable();
// The next cell of a row, after ImGui::TableNextRow: text, or a right-aligned number in mono.
void Cell(const ScreenFrame& frame, std::string_view text);
void NumberCell(const ScreenFrame& frame, std::string_view text);
void NumberCell(const ScreenFrame& frame, std::string_view text, Colour colour);

// Adds the previous widget to the record under `label`, for widgets drawn with Dear ImGui itself.
void Record(const ScreenFrame& frame, std::string_view label);

}  // namespace foretrain::ui
