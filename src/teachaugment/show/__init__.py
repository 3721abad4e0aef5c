"""What people look at: pictures, charts, tables, the terminal."""
