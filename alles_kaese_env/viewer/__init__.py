"""What people see of a game: text, picture, terminal, window, page and film, all from one view."""
